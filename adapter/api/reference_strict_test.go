package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"innerd/adapter/api"
)

// kind is the first byte of a JSON value: '{', '[', '"', 'n' for null, 't' for
// a boolean, '0' for a number, 0 for nothing.
func refKind(raw []byte) byte {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	if len(raw) == 0 {
		return 0
	}
	switch c := raw[0]; {
	case c == 'f':
		return 't'
	case c == '-' || c >= '0' && c <= '9':
		return '0'
	default:
		return c
	}
}

// kindName is the word for a value in an error.
func refKindName(raw []byte) string {
	switch refKind(raw) {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't':
		return "a boolean"
	case '0':
		return "a number"
	}
	return "null"
}

// absent reports whether a field is missing or null, which are the same.
func refAbsent(raw []byte) bool { k := refKind(raw); return k == 0 || k == 'n' }

// text is a string that may come as any JSON value: numbers and booleans by
// their text, everything else as "".
type refText string

func (t *refText) UnmarshalJSON(raw []byte) error {
	*t = refText(refLooseString(raw))
	return nil
}

func refLooseString(raw []byte) string {
	switch refKind(raw) {
	case '"':
		var s string
		if json.Unmarshal(raw, &s) == nil {
			return s
		}
	case '0', 't':
		return string(bytes.TrimSpace(raw))
	}
	return ""
}

// flag is a boolean that may come as any JSON value.
type refFlag bool

func (f *refFlag) UnmarshalJSON(raw []byte) error {
	b := refLooseBool(raw)
	*f = refFlag(b != nil && *b)
	return nil
}

func refLooseBool(raw []byte) *bool {
	var s string
	switch refKind(raw) {
	case 't', '0':
		s = string(bytes.TrimSpace(raw))
	case '"':
		s = strings.TrimSpace(refLooseString(raw))
	}
	if b, err := strconv.ParseBool(s); err == nil {
		return &b
	}
	return nil
}

// looseInt is a count that may come as any JSON value; what is not a positive
// number is 0.
func refLooseInt(raw []byte) int {
	f, err := strconv.ParseFloat(strings.TrimSpace(refLooseString(raw)), 64)
	if err != nil || !(f > 0) {
		return 0
	}
	return int(min(f, math.MaxInt32))
}

// list decodes a JSON array, or the one value that stands where a list should.
func refLooseList(raw []byte) []json.RawMessage {
	switch refKind(raw) {
	case 0, 'n':
		return nil
	case '[':
		var l []json.RawMessage
		if json.Unmarshal(raw, &l) == nil {
			return l
		}
		return nil
	}
	return []json.RawMessage{raw}
}

// strict reads fields of metadata whose type must be right. Missing and null
// are the zero value; the first fault is kept in err.
type refStrict struct {
	fields map[string]json.RawMessage
	err    error
}

func (s *refStrict) fail(name, format string, args ...any) {
	if s.err == nil {
		s.err = refFieldErr("metadata."+name, format, args...)
	}
}

// get is the raw value if it is there and of the kind, which has the name want.
func (s *refStrict) get(name string, k byte, want string) (json.RawMessage, bool) {
	raw := s.fields[name]
	if refAbsent(raw) {
		return nil, false
	}
	if refKind(raw) != k {
		s.fail(name, "must be %s, not %s", want, refKindName(raw))
		return nil, false
	}
	return raw, true
}

func (s *refStrict) string(name string) string {
	raw, ok := s.get(name, '"', "a string")
	if !ok {
		return ""
	}
	return refLooseString(raw)
}

func (s *refStrict) bool(name string) bool {
	raw, ok := s.get(name, 't', "true or false")
	return ok && raw[0] == 't'
}

// number is a number that is not negative.
func (s *refStrict) number(name string) float64 {
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

func (s *refStrict) count(name string) int {
	f := s.number(name)
	if f != math.Trunc(f) || f > math.MaxInt32 {
		s.fail(name, "must be a whole number up to %d", math.MaxInt32)
		return 0
	}
	return int(f)
}

func (s *refStrict) oneOf(name string, words ...string) string {
	v := s.string(name)
	if refKind(s.fields[name]) == '"' && !slices.Contains(words, v) {
		s.fail(name, "%q is none of %s", v, strings.Join(words, ", "))
		return ""
	}
	return v
}

func (s *refStrict) object(name string) json.RawMessage {
	raw, _ := s.get(name, '{', "an object")
	return raw
}

func (s *refStrict) strings(name string) []string {
	raw, ok := s.get(name, '[', "a list of strings")
	if !ok {
		return nil
	}
	var out []string
	for i, item := range refLooseList(raw) {
		if refKind(item) != '"' {
			s.fail(fmt.Sprintf("%s[%d]", name, i), "must be a string, not %s", refKindName(item))
			return nil
		}
		out = append(out, refLooseString(item))
	}
	return out
}

func (s *refStrict) env(name string) map[string]string {
	raw, ok := s.get(name, '{', "an object of strings")
	if !ok {
		return nil
	}
	var o map[string]json.RawMessage
	if err := json.Unmarshal(raw, &o); err != nil {
		s.fail(name, "%v", err)
		return nil
	}
	out := make(map[string]string, len(o))
	for k, v := range o {
		switch {
		case k == "" || strings.ContainsAny(k, "=\x00"):
			s.fail(name, "%q cannot be the name of a variable", k)
		case refKind(v) != '"':
			s.fail(name+"."+k, "must be a string, not %s", refKindName(v))
		case strings.Contains(refLooseString(v), "\x00"):
			s.fail(name+"."+k, "must not contain a zero byte")
		default:
			out[k] = refLooseString(v)
		}
	}
	return out
}

func (s *refStrict) credentials(name string) *api.Credentials {
	raw, ok := s.get(name, '{', "an object")
	if !ok {
		return nil
	}
	var o map[string]json.RawMessage
	if err := json.Unmarshal(raw, &o); err != nil {
		s.fail(name, "%v", err)
		return nil
	}
	inner := refStrict{fields: map[string]json.RawMessage{}}
	for k, v := range o {
		inner.fields[name+"."+k] = v
	}
	c := &api.Credentials{
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

func (s *refStrict) events(name string) api.Events {
	raw := s.fields[name]
	var words []string
	switch refKind(raw) {
	case 0, 'n':
		return nil
	case '"':
		words = []string{refLooseString(raw)}
	case '[':
		words = s.strings(name)
	default:
		s.fail(name, "must be a word or a list of types, not %s", refKindName(raw))
		return nil
	}
	for i, w := range words {
		if !api.KnownEvents(w) {
			if refKind(raw) == '[' {
				name = fmt.Sprintf("%s[%d]", name, i)
			}
			s.fail(name, "%q is neither \"basic\", \"all\", \"ask\" nor a type of event", w)
			return nil
		}
	}
	return words
}

func refOptString(name string, raw json.RawMessage) (string, error) {
	if refAbsent(raw) {
		return "", nil
	}
	if refKind(raw) != '"' {
		return "", refFieldErr(name, "must be a string, not %s", refKindName(raw))
	}
	return refLooseString(raw), nil
}
