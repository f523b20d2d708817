package api

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"
)

// Stored is the request as it may be stored, in one line: without credentials
// and without the values of env, however their names are spelled and however
// often they are there. It is for a request that was decoded. It may be the
// body itself, which nobody may change from then on.
func (h *Hollow) Stored() json.RawMessage {
	switch {
	case hasSecrets(h.small):
		return h.Fill(withoutSecrets(h.small))
	case bytes.ContainsAny(h.small, "\n\r"): // none stands in a string
		return h.Fill(oneLine(nil, h.small))
	}
	return h.whole
}

// isName reports whether a key is a name in any case.
func isName(key []byte, name string) bool { return strings.EqualFold(string(nameOf(key)), name) }

// hasSecrets reports whether anything has to be taken out of a request. What
// stands for metadata and is none may hold anything.
func hasSecrets(raw []byte) bool {
	for w := walkIn(raw); w.next(); {
		if !isName(w.key, "metadata") || absent(w.val) {
			continue
		}
		if kind(w.val) != '{' {
			return true
		}
		for m := walkIn(w.val); m.next(); {
			if isName(m.key, "credentials") || isName(m.key, "env") {
				return true
			}
		}
	}
	return false
}

// withoutSecrets is a request without them.
func withoutSecrets(raw []byte) []byte {
	out := append(make([]byte, 0, len(raw)), '{')
	for w := walkIn(raw); w.next(); {
		switch metadata := isName(w.key, "metadata"); {
		case metadata && kind(w.val) == '{':
			out = appendMetadata(appendKey(out, w.key), w.val)
		case !metadata || absent(w.val):
			out = oneLine(appendKey(out, w.key), w.val)
		}
	}
	return append(out, '}')
}

// appendMetadata leaves out credentials, the values of env, and an env that is
// none.
func appendMetadata(out, raw []byte) []byte {
	out = append(out, '{')
	for w := walkIn(raw); w.next(); {
		switch {
		case isName(w.key, "credentials"):
		case !isName(w.key, "env"), absent(w.val):
			out = oneLine(appendKey(out, w.key), w.val)
		case kind(w.val) == '{':
			out = append(appendKey(out, w.key), '{')
			for env := walkIn(w.val); env.next(); {
				out = append(appendKey(out, env.key), '"', '"')
			}
			out = append(out, '}')
		}
	}
	return append(out, '}')
}

// appendKey begins a member of an object.
func appendKey(out, key []byte) []byte {
	if out[len(out)-1] != '{' {
		out = append(out, ',')
	}
	return append(append(out, key...), ':')
}

// Hash is by which a repeated request is known. Credentials do not count in it,
// since a host that comes back may have new ones, nor do white space and the
// order of names. Hashes are kept on disk: the same request has the same one in
// every version. It is that of the tree of values as encoding/json writes it.
// It is for a request that was decoded.
func (h *Hollow) Hash() string {
	raw := h.Name(h.small)
	c := canon{in: raw, ends: endsIn(raw), out: make([]byte, 0, len(raw))}
	from := gap(raw, 0)
	c.value(from, c.ends.of(from), inRequest)
	sum := sha256.Sum256(c.out)
	return hex.EncodeToString(sum[:])
}

// canon writes valid JSON as encoding/json writes what it has read from it:
// names sorted, the last one of those that are the same, no white space, and
// strings always spelled the same way. Its time does not depend on how deep
// values stand.
type canon struct {
	in    []byte
	ends  *ends
	out   []byte
	stack []member // of the objects that are being written
}

// member is one of an object: its name, its key as it stands there, and where
// its value stands.
type member struct {
	name, key []byte
	from, to  int
}

// What a value is.
const (
	anyValue = iota
	inRequest
	inMetadata // of the request
)

func (c *canon) value(from, to, place int) {
	switch c.in[from] {
	case '{':
		c.object(from, place)
	case '[':
		c.out = append(c.out, '[')
		first := len(c.out)
		for w := c.walk(from); w.next(); {
			if len(c.out) > first {
				c.out = append(c.out, ',')
			}
			c.value(w.at-len(w.val), w.at, anyValue)
		}
		c.out = append(c.out, ']')
	case '"':
		c.text(c.in[from:to])
	default:
		c.out = append(c.out, c.in[from:to]...)
	}
}

func (c *canon) walk(from int) walk {
	return walk{in: c.in, at: from + 1, named: c.in[from] == '{', ends: c.ends}
}

func (c *canon) object(from, place int) {
	base := len(c.stack)
	for w := c.walk(from); w.next(); {
		c.stack = append(c.stack, member{nameOf(w.key), w.key, w.at - len(w.val), w.at})
	}
	end := len(c.stack)
	slices.SortFunc(c.stack[base:], func(a, b member) int {
		return cmp.Or(bytes.Compare(a.name, b.name), cmp.Compare(a.from, b.from))
	})
	c.out = append(c.out, '{')
	first := len(c.out)
	for i := base; i < end; i++ {
		m := c.stack[i]
		switch {
		case i+1 < end && bytes.Equal(m.name, c.stack[i+1].name): // the last one counts
			continue
		case place == inMetadata && strings.EqualFold(string(m.name), "credentials"):
			continue
		}
		if len(c.out) > first {
			c.out = append(c.out, ',')
		}
		c.text(m.key)
		c.out = append(c.out, ':')
		is := anyValue
		if place == inRequest && strings.EqualFold(string(m.name), "metadata") {
			is = inMetadata
		}
		c.value(m.from, m.to, is)
	}
	c.out = append(c.out, '}')
	c.stack = c.stack[:base]
}

// text writes a string. Most are spelled as encoding/json spells them.
func (c *canon) text(lit []byte) {
	if spelledSo(lit) {
		c.out = append(c.out, lit...)
		return
	}
	quoted, _ := json.Marshal(unquote(lit)) // a string
	c.out = append(c.out, quoted...)
}

// spelledSo reports whether a string is surely spelled as encoding/json does.
func spelledSo(lit []byte) bool {
	ascii := true
	for i := 1; i < len(lit)-1; i++ {
		switch c := lit[i]; {
		case c == '<', c == '>', c == '&':
			return false
		case c == '\\':
			i++
			switch lit[i] {
			case '/', 'u':
				return false
			}
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	// The two ends of lines that are no letters of JavaScript's strings.
	return ascii || utf8.Valid(lit) && !bytes.Contains(lit, []byte("\u2028")) && !bytes.Contains(lit, []byte("\u2029"))
}
