package api_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"innerd/adapter/api"
)

// redact is the request as it may be stored, without credentials and without
// the values of env, and, where asked for, the hash by which a repeated request
// is known. Credentials do not count in it: a host that comes back may have
// new ones.
func refRedact(h *api.Hollow, hashed bool) (stored json.RawMessage, hash string, err error) {
	var top map[string]json.RawMessage
	if err := json.Unmarshal(h.Body(), &top); err != nil {
		return nil, "", err
	}
	refInMetadata(top, "credentials", func(json.RawMessage) json.RawMessage { return nil })
	if hashed {
		hash = refHashOf(h.Name(refMust(json.Marshal(top))))
	}
	refInMetadata(top, "env", func(v json.RawMessage) json.RawMessage {
		var env map[string]json.RawMessage
		if json.Unmarshal(v, &env) != nil {
			return nil
		}
		for k := range env {
			env[k] = json.RawMessage(`""`)
		}
		return refMust(json.Marshal(env))
	})
	return h.Fill(refMust(json.Marshal(top))), hash, nil
}

// inMetadata replaces a field of a request's metadata.
func refInMetadata(top map[string]json.RawMessage, key string, f func(json.RawMessage) json.RawMessage) {
	refReplaceFold(top, "metadata", func(raw json.RawMessage) json.RawMessage {
		var meta map[string]json.RawMessage
		if json.Unmarshal(raw, &meta) != nil || meta == nil {
			return raw
		}
		refReplaceFold(meta, key, f)
		return refMust(json.Marshal(meta))
	})
}

// replaceFold replaces every value whose name is key in any case; nil drops it.
func refReplaceFold(o map[string]json.RawMessage, key string, f func(json.RawMessage) json.RawMessage) {
	for k, v := range o {
		if !strings.EqualFold(k, key) {
			continue
		}
		if v = f(v); v == nil {
			delete(o, k)
			continue
		}
		o[k] = v
	}
}

// hashOf does not depend on the order of names or on white space.
func refHashOf(raw []byte) string {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var tree any
	if err := dec.Decode(&tree); err != nil {
		panic(fmt.Errorf("hash of a request: %w", err))
	}
	sum := sha256.Sum256(refMust(json.Marshal(tree)))
	return hex.EncodeToString(sum[:])
}

func refMust(b []byte, err error) []byte {
	if err != nil {
		panic(fmt.Errorf("encode what was just decoded: %w", err))
	}
	return b
}
