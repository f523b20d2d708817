package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// strict reads fields of metadata, of valid JSON, whose type must be right. Missing and null
// are the zero value; the first fault is kept in err.
type strict struct {
	fields map[string]json.RawMessage
	err    error
}

func (s *strict) fail(name, format string, args ...any) {
	if s.err == nil {
		s.err = fieldErr("metadata."+name, format, args...)
	}
}

// get is the raw value if it is there and of the kind, which has the name want.
func (s *strict) get(name string, k byte, want string) (json.RawMessage, bool) {
	raw := s.fields[name]
	if absent(raw) {
		return nil, false
	}
	if kind(raw) != k {
		s.fail(name, "must be %s, not %s", want, kindName(raw))
		return nil, false
	}
	return raw, true
}

func (s *strict) string(name string) string {
	raw, ok := s.get(name, '"', "a string")
	if !ok {
		return ""
	}
	return looseString(raw)
}

func (s *strict) bool(name string) bool {
	raw, ok := s.get(name, 't', "true or false")
	return ok && raw[0] == 't'
}

// number is a number that is not negative.
func (s *strict) number(name string) float64 {
	raw, ok := s.get(name, '0', "a number")
	if !ok {
		return 0
	}
	var f float64
	if err := json.Unmarshal(raw, &f); err != nil || math.IsInf(f, 0) {
		s.fail(name, "is too large")
		return 0
	}
	if f < 0 {
		s.fail(name, "must not be negative")
		return 0
	}
	return f
}

func (s *strict) count(name string) int {
	f := s.number(name)
	if f != math.Trunc(f) || f > math.MaxInt32 {
		s.fail(name, "must be a whole number up to %d", math.MaxInt32)
		return 0
	}
	return int(f)
}

func (s *strict) oneOf(name string, words ...string) string {
	v := s.string(name)
	if kind(s.fields[name]) == '"' && !slices.Contains(words, v) {
		s.fail(name, "%q is none of %s", v, strings.Join(words, ", "))
		return ""
	}
	return v
}

func (s *strict) object(name string) json.RawMessage {
	raw, _ := s.get(name, '{', "an object")
	return bytes.Clone(raw)
}

func (s *strict) strings(name string) []string {
	raw, ok := s.get(name, '[', "a list of strings")
	if !ok {
		return nil
	}
	var out []string
	for i, item := range looseList(raw) {
		if kind(item) != '"' {
			s.fail(fmt.Sprintf("%s[%d]", name, i), "must be a string, not %s", kindName(item))
			return nil
		}
		out = append(out, looseString(item))
	}
	return out
}

func (s *strict) env(name string) map[string]string {
	raw, ok := s.get(name, '{', "an object of strings")
	if !ok {
		return nil
	}
	o := members(raw)
	out := make(map[string]string, len(o))
	for _, k := range slices.Sorted(maps.Keys(o)) { // the same fault each time
		v := o[k]
		switch {
		case k == "" || strings.ContainsAny(k, "=\x00"):
			s.fail(name, "%q cannot be the name of a variable", k)
		case kind(v) != '"':
			s.fail(name+"."+k, "must be a string, not %s", kindName(v))
		case strings.Contains(looseString(v), "\x00"):
			s.fail(name+"."+k, "must not contain a zero byte")
		default:
			out[k] = looseString(v)
		}
	}
	return out
}

func (s *strict) credentials(name string) *Credentials {
	raw, ok := s.get(name, '{', "an object")
	if !ok {
		return nil
	}
	inner := strict{fields: map[string]json.RawMessage{}}
	for k, v := range members(raw) {
		inner.fields[name+"."+k] = v
	}
	c := &Credentials{
		APIKey:   inner.string(name + ".api_key"),
		BaseURL:  inner.string(name + ".base_url"),
		Model:    inner.string(name + ".model"),
		Provider: inner.string(name + ".provider"),
	}
	if inner.err != nil && s.err == nil {
		s.err = inner.err
	}
	return c
}

func (s *strict) events(name string) Events {
	raw := s.fields[name]
	var words []string
	switch kind(raw) {
	case 0, 'n':
		return nil
	case '"':
		words = []string{looseString(raw)}
	case '[':
		words = s.strings(name)
	default:
		s.fail(name, "must be a word or a list of types, not %s", kindName(raw))
		return nil
	}
	for i, w := range words {
		if !knownEvents(w) {
			if kind(raw) == '[' {
				name = fmt.Sprintf("%s[%d]", name, i)
			}
			s.fail(name, "%q is neither \"basic\", \"all\", \"ask\" nor a type of event", w)
			return nil
		}
	}
	return words
}
