// Package redact takes secrets out of what agents say, before it is stored or
// shown. It is pure.
//
// A pattern is a text, or the beginning of a token: nothing that must be read
// to its end to be known. So a stream that comes in pieces is redacted as its
// whole would be, and holds back no more than an end that may be the beginning
// of a secret. That is why regular expressions are not among the patterns.
package redact

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Mark stands in the place of a secret.
const Mark = "[redacted]"

const (
	// MinText is the least that a text must have to be a pattern, in bytes: a
	// shorter one is in too many places where it is no secret.
	MinText = 8
	// MinPrefix and MinToken are the least of the beginning of a token and of
	// what follows it.
	MinPrefix = 3
	MinToken  = 12
)

// Set is what is taken out. A nil one takes nothing. It does not change, so it
// is safe for concurrent use.
type Set struct {
	texts    []string  // longest first
	prefixes []string  // of tokens, longest first
	first    [256]bool // bytes that one of them begins with
}

// New makes a set of patterns. One that ends in * is the beginning of a token:
// it stands for itself and the letters, digits and _ - . + / = behind it, at
// least MinToken of them. Any other is a text.
func New(patterns ...string) (*Set, error) { return (*Set)(nil).With(patterns...) }

// With is the set and more patterns.
func (s *Set) With(patterns ...string) (*Set, error) {
	out := &Set{}
	if s != nil {
		*out = Set{slices.Clone(s.texts), slices.Clone(s.prefixes), s.first}
	}
	for _, p := range patterns {
		prefix, token := strings.CutSuffix(p, "*")
		switch {
		case token && len(prefix) < MinPrefix:
			return nil, fmt.Errorf("a beginning of less than %d bytes stands for too much", MinPrefix)
		case token:
			out.prefixes = append(out.prefixes, prefix)
		case len(p) < MinText:
			return nil, fmt.Errorf("a text of less than %d bytes stands for too much", MinText)
		default:
			out.texts = append(out.texts, p)
		}
		out.first[p[0]] = true
	}
	longestFirst(out.texts)
	longestFirst(out.prefixes)
	return out, nil
}

// Known is the set and secrets that are known; those that are too short to be
// found safely are left out.
func (s *Set) Known(secrets ...string) *Set {
	var long []string
	for _, k := range secrets {
		if k = strings.TrimSpace(k); len(k) >= MinText {
			long = append(long, strings.TrimRight(k, "*")) // a text, whatever it ends in
		}
	}
	long = slices.DeleteFunc(long, func(k string) bool { return len(k) < MinText })
	if len(long) == 0 {
		return s
	}
	out, err := s.With(long...)
	if err != nil {
		return s // cannot be: they are long enough
	}
	return out
}

// SecretName reports whether a variable's name says that its value is a secret.
func SecretName(name string) bool {
	name = strings.ToUpper(name)
	for _, word := range []string{"KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}

// maxPattern is the longest pattern, in bytes: text that could be its beginning
// is held back as long.
const maxPattern = 1 << 20

// Read reads patterns, one a line; an empty line and one that begins with #
// are none.
func Read(raw []byte) ([]string, error) {
	var out []string
	n := 0
	for line := range bytes.Lines(raw) {
		n++
		p := strings.TrimSpace(string(line))
		if p == "" || p[0] == '#' {
			continue
		}
		if len(p) > maxPattern {
			return nil, fmt.Errorf("line %d has %d bytes, and a pattern at most %d: one secret, or the beginning of some, stands on a line", n, len(p), maxPattern)
		}
		if _, err := New(p); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err) // its text may be a secret
		}
		out = append(out, p)
	}
	return out, nil
}

// Common are the beginnings of tokens of vendors whose keys agents meet.
func Common() []string {
	return []string{
		"sk-ant-*", "sk-proj-*", "sk-svcacct-*", "sk-or-v1-*", "ghp_*", "gho_*", "ghu_*", "ghs_*", "ghr_*", "github_pat_*", "glpat-*",
		"xoxb-*", "xoxp-*", "xoxa-*", "xapp-*", "AKIA*", "ASIA*", "AIzaSy*", "ya29.*", "npm_*", "pypi-*", "hf_*", "sk_live_*", "rk_live_*", "dop_v1_*",
	}
}

func longestFirst(list []string) {
	slices.SortStableFunc(list, func(a, b string) int { return len(b) - len(a) })
}

// Text is s without secrets.
func (s *Set) Text(in string) string {
	if s == nil || !s.may(in) {
		return in
	}
	st := s.Stream()
	out := st.Write(in)
	return out + st.Close()
}

// may tells quickly of most texts that nothing in them begins a secret.
func (s *Set) may(in string) bool {
	for i := 0; i < len(in); i++ {
		if s.first[in[i]] {
			return true
		}
	}
	return false
}

// JSON is a JSON value without secrets in its strings. All else of it stays,
// byte for byte; what is not JSON is treated as a text.
func (s *Set) JSON(raw json.RawMessage) json.RawMessage {
	if s == nil || len(raw) == 0 {
		return raw
	}
	var out []byte // nil as long as nothing changed
	from := 0
	for i := 0; i < len(raw); i++ {
		if raw[i] != '"' {
			continue
		}
		end := stringEnd(raw, i)
		var text string
		if json.Unmarshal(raw[i:end], &text) == nil {
			if clean := s.Text(text); clean != text {
				quoted, _ := json.Marshal(clean) // a string
				out = append(append(out, raw[from:i]...), quoted...)
				from = end
			}
		}
		i = end - 1
	}
	if out == nil {
		return raw
	}
	return append(out, raw[from:]...)
}

// stringEnd is where the string that begins at i ends.
func stringEnd(raw []byte, i int) int {
	for i++; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(raw)
}

// Stream redacts a text that comes in pieces: what its Writes and its Close
// return is together what Text gives for the whole.
type Stream struct {
	set  *Set
	held string // an end that may be the beginning of a secret
	in   bool   // in a token whose beginning was taken out
}

// Stream begins a text.
func (s *Set) Stream() *Stream { return &Stream{set: s} }

// Write takes a piece and gives what can be shown.
func (t *Stream) Write(piece string) string { return t.next(piece, false) }

// Close ends the text and gives what was held back of it.
func (t *Stream) Close() string { return t.next("", true) }

// Held reports whether an end is held back.
func (t *Stream) Held() bool { return t.held != "" }

func (t *Stream) next(piece string, over bool) string {
	if t.held == "" && !t.in && !t.set.may(piece) {
		return piece
	}
	in := t.held + piece
	t.held = ""
	var out strings.Builder
	shown := 0 // of in
	for i := 0; i < len(in); {
		if t.in {
			n := tokenLen(in[i:])
			i, shown = i+n, i+n
			t.in = i == len(in) && !over
			continue
		}
		if !t.set.first[in[i]] {
			i++
			continue
		}
		n, maybe := t.set.match(in[i:], over)
		switch {
		case maybe:
			t.held = in[i:]
			out.WriteString(in[shown:i])
			return out.String()
		case n > 0:
			out.WriteString(in[shown:i])
			out.WriteString(Mark)
			i, shown = i+n, i+n
			t.in = t.in || i == len(in) && !over && t.set.isToken(in[i-n:i])
		default:
			_, w := utf8.DecodeRuneInString(in[i:])
			i += w
		}
	}
	out.WriteString(in[shown:])
	return out.String()
}

// match says how long the secret is that in begins with, 0 for none; maybe: it
// is too short to tell, and there is more to come.
func (s *Set) match(in string, over bool) (n int, maybe bool) {
	for _, p := range s.texts {
		if !over && len(in) < len(p) && strings.HasPrefix(p, in) {
			return 0, true
		}
		if n == 0 && strings.HasPrefix(in, p) {
			n = len(p)
		}
	}
	for _, p := range s.prefixes {
		if !strings.HasPrefix(in, p) {
			if !over && len(in) < len(p) && strings.HasPrefix(p, in) {
				return 0, true
			}
			continue
		}
		run := tokenLen(in[len(p):])
		switch {
		case run >= MinToken:
			n = max(n, len(p)+run)
		case !over && len(p)+run == len(in):
			return 0, true
		}
	}
	return n, false
}

// isToken reports whether a match was one of the beginning of a token, which
// may go on in the next piece.
func (s *Set) isToken(match string) bool {
	for _, p := range s.prefixes {
		if strings.HasPrefix(match, p) && len(match) >= len(p)+MinToken && tokenLen(match[len(p):]) == len(match)-len(p) {
			return true
		}
	}
	return false
}

// tokenLen is how many bytes of a token s begins with.
func tokenLen(s string) int {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("_-.+/=", c) >= 0:
		default:
			return i
		}
	}
	return len(s)
}
