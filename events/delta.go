package events

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// What stands in the line of a delta between its values, as AppendLine writes it.
const (
	lineHead      = `{"id":`
	lineTS        = `,"ts":`
	lineData      = `"data":`
	messageHead   = `,"type":"` + string(TypeMessageDelta) + `","data":{"delta":`
	messageID     = `,"message_id":`
	messageTail   = `}}`
	reasoningHead = `,"type":"` + string(TypeReasoningDelta) + `","data":{"delta":`
	reasoningID   = `,"reasoning_id":`
	reasoningTail = reasoningExtensions + `}}`
)

// ParseDelta is ParseLine for the line of a delta that is written exactly as
// AppendLine does it, which nearly all lines are: it takes a tenth of the time.
// Raw is nil. False: it is another event, or written otherwise, with a field more
// for one; ParseLine reads it.
func ParseDelta(line []byte) (e Event, ok bool) {
	c := cutter{rest: line}
	c.skip(lineHead)
	e.ID = c.number()
	c.skip(lineTS)
	e.TS = c.number()
	switch {
	case c.bad:
	case bytes.HasPrefix(c.rest, []byte(messageHead)):
		var d MessageDelta
		c.skip(messageHead)
		d.Delta = c.text()
		c.skip(messageID)
		d.MessageID = c.text()
		c.skip(messageTail)
		e.Data = d
	case bytes.HasPrefix(c.rest, []byte(reasoningHead)):
		var d ReasoningDelta
		c.skip(reasoningHead)
		d.Delta = c.text()
		c.skip(reasoningID)
		d.ReasoningID = c.text()
		c.skip(reasoningTail)
		e.Data = d
	}
	if c.bad || len(c.rest) > 0 || e.Data == nil {
		return Event{}, false
	}
	return e, true
}

// cutter cuts a line from its beginning, and remembers what did not fit.
type cutter struct {
	rest []byte
	bad  bool
}

func (c *cutter) skip(s string) {
	rest, ok := bytes.CutPrefix(c.rest, []byte(s))
	c.rest, c.bad = rest, c.bad || !ok
}

// number reads one without a sign, of at most 18 digits: those fit.
func (c *cutter) number() (v int64) {
	n := 0
	for n < len(c.rest) && c.rest[n] >= '0' && c.rest[n] <= '9' {
		v = v*10 + int64(c.rest[n]-'0')
		n++
	}
	c.bad = c.bad || n == 0 || n > 18 || n > 1 && c.rest[0] == '0'
	c.rest = c.rest[n:]
	return v
}

// text reads a string of ASCII.
func (c *cutter) text() string {
	if c.skip(`"`); c.bad {
		return ""
	}
	for i, b := range c.rest {
		switch {
		case plain[b]:
		case b == '"':
			s := string(c.rest[:i])
			c.rest = c.rest[i+1:]
			return s
		case b == '\\':
			return c.escaped(i)
		default:
			c.bad = true
			return ""
		}
	}
	c.bad = true
	return ""
}

// escapes are the characters behind a backslash, but for u.
var escapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escaped goes on with a string whose first escape is at i.
func (c *cutter) escaped(i int) string {
	s := c.rest
	out := append(make([]byte, 0, i+(len(s)-i)/2), s[:i]...)
	for i < len(s) {
		switch b := s[i]; {
		case plain[b]:
			out = append(out, b)
			i++
		case b == '"':
			c.rest = s[i+1:]
			return string(out)
		case b == '\\' && i+1 < len(s) && escapes[s[i+1]] != 0:
			out = append(out, escapes[s[i+1]])
			i += 2
		default:
			r, n := escapedRune(s[i:])
			if n == 0 {
				c.bad = true
				return ""
			}
			out = utf8.AppendRune(out, r)
			i += n
		}
	}
	c.bad = true
	return ""
}

// escapedRune reads \uXXXX, or the pair of them that is one rune, and says how
// long it is. 0: it is none, or half a pair, of which ParseLine knows what
// becomes.
func escapedRune(s []byte) (rune, int) {
	r, ok := hex4(s)
	switch {
	case !ok:
		return 0, 0
	case !utf16.IsSurrogate(r):
		return r, 6
	}
	low, ok := hex4(s[6:])
	if r = utf16.DecodeRune(r, low); !ok || r == utf8.RuneError {
		return 0, 0
	}
	return r, 12
}

// hex4 reads \uXXXX.
func hex4(s []byte) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	v, err := strconv.ParseUint(string(s[2:6]), 16, 16)
	return rune(v), err == nil
}
