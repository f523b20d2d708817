package spec

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
)

// Decode reads a request. Names may also be those of the .proto file, in
// snake_case; what is unknown is ignored. What is wrong is an *Error with the
// code of invalid parameters, or of a parse error where it is no JSON at all.
func Decode(raw []byte, v any) error {
	if !json.Valid(raw) {
		return ParseError("the body is not JSON")
	}
	if bytes.IndexByte(raw, '_') >= 0 {
		raw = camelCase(raw, maxDepth)
	}
	err := json.Unmarshal(raw, v)
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong):
		return InvalidParams(wrong.Field, "must be "+jsonKind(wrong.Type.Kind().String())+", not "+wrong.Value)
	}
	return InvalidParams("", err.Error())
}

func jsonKind(kind string) string {
	switch kind {
	case "struct", "map", "ptr":
		return "an object"
	case "slice":
		return "a list"
	case "bool":
		return "true or false"
	}
	return "a " + kind
}

// foreign are the members whose content is never looked into.
var foreign = map[string]bool{"metadata": true, "data": true, "params": true, "header": true}

// maxDepth is above how deep members of ours stand. Each level is a copy of all
// below it: without a limit a small body of many levels takes all memory.
const maxDepth = 8

// camelCase renames the members of a JSON value from snake_case, but for what
// belongs to somebody else.
func camelCase(raw []byte, depth int) []byte {
	switch t := bytes.TrimSpace(raw); {
	case len(t) == 0 || depth == 0:
		return raw
	case t[0] == '[':
		var list []json.RawMessage
		if json.Unmarshal(t, &list) != nil {
			return raw
		}
		for i, v := range list {
			list[i] = camelCase(v, depth-1)
		}
		return encode(list, raw)
	case t[0] != '{':
		return raw
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) != nil {
		return raw
	}
	for name, v := range object {
		if !foreign[name] && bytes.IndexByte(v, '_') >= 0 {
			object[name] = camelCase(v, depth-1)
		}
	}
	for name, v := range object {
		camel := camelName(name)
		if camel == name {
			continue
		}
		delete(object, name)
		if _, given := object[camel]; !given {
			object[camel] = v
		}
	}
	return encode(object, raw)
}

func encode(v any, otherwise []byte) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return otherwise
	}
	return buf.Bytes()
}

func camelName(s string) string {
	if strings.IndexByte(s, '_') <= 0 {
		return s
	}
	words := strings.Split(s, "_")
	for i, w := range words[1:] {
		if w != "" {
			words[i+1] = strings.ToUpper(w[:1]) + w[1:]
		}
	}
	return strings.Join(words, "")
}
