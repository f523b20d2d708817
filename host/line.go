package host

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"innerd/events"
)

// parseLine is events.ParseLine with a short way for deltas, which are nearly
// all of a stream: exactly as a server writes them they are cut out by hand,
// some fifteen times faster than encoding/json does it. Anything else, also a
// field more, takes the long way.
func parseLine(line []byte) (events.Event, error) {
	if ev, ok := parseDelta(line); ok {
		return ev, nil
	}
	return events.ParseLine(line)
}

const (
	messageHead   = `"` + string(events.TypeMessageDelta) + `","data":`
	reasoningHead = `"` + string(events.TypeReasoningDelta) + `","data":`
	reasoningTail = `,"extensions":[{"uri":"` + events.ReasoningExtension + `"}]}}`
)

func parseDelta(line []byte) (ev events.Event, ok bool) {
	if !bytes.HasPrefix(line, []byte(`{"id":`)) || len(line) > 64<<10 {
		return ev, false
	}
	s := cutter{rest: string(line)}
	s.skip(`{"id":`)
	ev.ID = s.number()
	s.skip(`,"ts":`)
	ev.TS = s.number()
	s.skip(`,"type":`)
	switch {
	case strings.HasPrefix(s.rest, messageHead):
		s.skip(messageHead)
		ev.Raw = s.raw(line)
		s.skip(`{"delta":`)
		d := events.MessageDelta{Delta: s.text()}
		s.skip(`,"message_id":`)
		d.MessageID = s.text()
		s.skip(`}}`)
		ev.Data = d
	case strings.HasPrefix(s.rest, reasoningHead):
		s.skip(reasoningHead)
		ev.Raw = s.raw(line)
		s.skip(`{"delta":`)
		d := events.ReasoningDelta{Delta: s.text()}
		s.skip(`,"reasoning_id":`)
		d.ReasoningID = s.text()
		s.skip(reasoningTail)
		ev.Data = d
	default:
		return ev, false
	}
	return ev, !s.bad && s.rest == ""
}

// cutter cuts a line from its beginning, and remembers what did not fit.
type cutter struct {
	rest string
	bad  bool
}

func (c *cutter) skip(s string) {
	if rest, ok := strings.CutPrefix(c.rest, s); ok {
		c.rest = rest
	} else {
		c.bad = true
	}
}

func (c *cutter) number() int64 {
	n := 0
	for n < len(c.rest) && c.rest[n] >= '0' && c.rest[n] <= '9' {
		n++
	}
	v, err := strconv.ParseInt(c.rest[:n], 10, 64)
	if err != nil || n > 1 && c.rest[0] == '0' {
		c.bad = true
	}
	c.rest = c.rest[n:]
	return v
}

// raw is the data object, up to the brace that ends the line.
func (c *cutter) raw(line []byte) json.RawMessage {
	if len(c.rest) < 2 {
		c.bad = true
		return nil
	}
	return slices.Clone(line[len(line)-len(c.rest) : len(line)-1])
}

// text is a string of ASCII.
func (c *cutter) text() string {
	s, ok := strings.CutPrefix(c.rest, `"`)
	if !ok {
		c.bad = true
		return ""
	}
	for i := 0; i < len(s); i++ {
		switch b := s[i]; {
		case b == '"':
			c.rest = s[i+1:]
			return s[:i]
		case b == '\\':
			return c.escaped(s, i)
		case b < 0x20 || b >= 0x80:
			c.bad = true
			return ""
		}
	}
	c.bad = true
	return ""
}

var escapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escaped goes on with a string whose first escape is at i.
func (c *cutter) escaped(s string, i int) string {
	out := append(make([]byte, 0, len(s)), s[:i]...)
	for i < len(s) {
		b := s[i]
		switch {
		case b == '"':
			c.rest = s[i+1:]
			return string(out)
		case b < 0x20 || b >= 0x80:
			c.bad = true
			return ""
		case b != '\\':
			out = append(out, b)
			i++
			continue
		case i+1 < len(s) && escapes[s[i+1]] != 0:
			out = append(out, escapes[s[i+1]])
			i += 2
			continue
		}
		r, ok := hex4(s[i:])
		if !ok {
			break
		}
		i += 6
		if utf16.IsSurrogate(r) {
			low, ok := hex4(s[i:])
			if r = utf16.DecodeRune(r, low); !ok || r == '\ufffd' {
				break // half a pair: the long way knows what becomes of it
			}
			i += 6
		}
		out = append(out, string(r)...)
	}
	c.bad = true
	return ""
}

// hex4 reads \uXXXX.
func hex4(s string) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	v, err := strconv.ParseUint(s[2:6], 16, 16)
	return rune(v), err == nil
}
