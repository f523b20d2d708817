package api

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"unicode"
	"unicode/utf8"
)

// encoding/json looks through a value once for every type with a decoder of its
// own that it is nested in, five times for the text of a message. A body is
// checked once instead, and then read here, where nothing is checked and nothing
// copied.

// walk goes over the members of an object or the elements of a list. It is for
// JSON that is known to be valid, and may panic on anything else.
type walk struct {
	in    []byte
	at    int
	named bool   // an object
	ends  *ends  // of what is in it, where they are known
	key   []byte // of the member, as it stands there, with its quotes
	val   []byte // of the member or element, without space around it; a piece of the JSON
}

// walkIn begins a walk in an object or a list; there is nothing in any other
// value.
func walkIn(raw []byte) walk {
	at := gap(raw, 0)
	if at >= len(raw) || raw[at] != '{' && raw[at] != '[' {
		return walk{}
	}
	return walk{in: raw, at: at + 1, named: raw[at] == '{'}
}

// next goes to the next member or element; false: there is none.
func (w *walk) next() bool {
	at := gap(w.in, w.at)
	if at >= len(w.in) || w.in[at] == '}' || w.in[at] == ']' {
		return false
	}
	if w.named {
		end := stringEnd(w.in, at)
		w.key = w.in[at:end]
		at = gap(w.in, end)
	}
	if w.ends != nil && (w.in[at] == '{' || w.in[at] == '[') {
		w.at = w.ends.of(at)
	} else {
		w.at = valueEnd(w.in, at)
	}
	w.val = w.in[at:w.at:w.at]
	return true
}

// ends are where the objects and lists of a JSON end. Who goes into all of them,
// however deep, needs them: each level would look for the end of the next one
// again, through all that is in it.
type ends struct{ from, to []int }

func endsIn(raw []byte) *ends {
	e := &ends{}
	var open []int
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			i = stringEnd(raw, i) - 1
		case '{', '[':
			open = append(open, len(e.from))
			e.from, e.to = append(e.from, i), append(e.to, 0)
		case '}', ']':
			last := len(open) - 1
			e.to[open[last]] = i + 1
			open = open[:last]
		}
	}
	return e
}

// of is behind the object or list that begins at i.
func (e *ends) of(i int) int {
	n, _ := slices.BinarySearch(e.from, i)
	return e.to[n]
}

// gap is behind the space, commas and colons that stand between tokens.
func gap(b []byte, at int) int {
	for at < len(b) {
		switch b[at] {
		case ' ', '\t', '\n', '\r', ',', ':':
			at++
		default:
			return at
		}
	}
	return at
}

// valueEnd is behind the value that begins at i.
func valueEnd(b []byte, i int) int {
	switch b[i] {
	case '"':
		return stringEnd(b, i)
	case '{', '[':
	default:
		for i++; i < len(b); i++ {
			switch b[i] {
			case ',', '}', ']', ' ', '\t', '\n', '\r':
				return i
			}
		}
		return i
	}
	for depth := 0; ; i++ {
		switch b[i] {
		case '"':
			i = stringEnd(b, i) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
}

// elements are the values of a list, as pieces of it.
func elements(raw []byte) (out []json.RawMessage) {
	for w := walkIn(raw); w.next(); {
		out = append(out, w.val)
	}
	return out
}

// members are the values of an object by their names, as pieces of it. Of those
// with one name it is the last.
func members(raw []byte) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	for w := walkIn(raw); w.next(); {
		out[string(nameOf(w.key))] = w.val
	}
	return out
}

// nameOf is the name that a key stands for.
func nameOf(lit []byte) []byte {
	name := lit[1 : len(lit)-1]
	if bytes.IndexByte(name, '\\') < 0 && utf8.Valid(name) {
		return name
	}
	return []byte(unquote(lit))
}

// fieldOf is the name of the field that a key means, in lower case:
// encoding/json takes a name in any case, and knows letters that are others of
// ASCII in another case, as the sign of Kelvin is a k.
func fieldOf(lit []byte) []byte {
	name := lit[1 : len(lit)-1]
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return bytes.Map(lower, nameOf(lit))
		}
	}
	return name
}

// lower is the small letter of ASCII that r is in another case.
func lower(r rune) rune {
	if r < utf8.RuneSelf {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		if 'a' <= f && f <= 'z' {
			return f
		}
	}
	return r
}

// oneLine adds a value to out, without the space between its tokens.
func oneLine(out, raw []byte) []byte {
	out = slices.Grow(out, len(raw))
	for i := 0; i < len(raw); {
		switch c := raw[i]; c {
		case ' ', '\t', '\n', '\r':
			i++
		case '"':
			end := stringEnd(raw, i)
			out = append(out, raw[i:end]...)
			i = end
		default:
			out = append(out, c)
			i++
		}
	}
	return out
}

// stringEnd is behind the quote that ends the string that begins at i; -1: none
// does.
func stringEnd(b []byte, i int) int {
	for at := i + 1; ; {
		n := bytes.IndexByte(b[at:], '"')
		if n < 0 {
			return -1
		}
		at += n
		slashes := 0
		for b[at-1-slashes] == '\\' { // ends at the opening quote at the latest
			slashes++
		}
		at++
		if slashes%2 == 0 {
			return at
		}
	}
}

// unquote is the text of a valid string, as encoding/json reads it.
func unquote(lit []byte) string {
	in := lit[1 : len(lit)-1]
	if !utf8.Valid(in) {
		return unquoteAny(lit)
	}
	if bytes.IndexByte(in, '\\') < 0 {
		return string(in)
	}
	out := make([]byte, 0, len(in))
	for {
		n := bytes.IndexByte(in, '\\')
		if n < 0 {
			return string(append(out, in...))
		}
		out = append(out, in[:n]...)
		c := in[n+1]
		in = in[n+2:]
		switch c {
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'u':
			code, _ := strconv.ParseUint(string(in[:4]), 16, 16)
			if code >= 0xd800 && code < 0xe000 { // a pair, or half of one
				return unquoteAny(lit)
			}
			out = utf8.AppendRune(out, rune(code))
			in = in[4:]
			continue
		}
		out = append(out, c)
	}
}

// unquoteAny is unquote for texts that are no Unicode, or pairs of surrogates.
func unquoteAny(lit []byte) (s string) {
	_ = json.Unmarshal(lit, &s) // a string
	return s
}

// syntaxError says why a value is no JSON; nil: it is.
func syntaxError(raw []byte) error {
	if json.Valid(raw) {
		return nil
	}
	var v json.RawMessage
	return json.Unmarshal(raw, &v)
}
