package events

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"
)

const reasoningExtensions = `,"extensions":[{"uri":"` + ReasoningExtension + `"}]`

// AppendLine appends the line {"id":…,"ts":…,"type":…,"data":{…}} of an event
// to dst, without a line end. The line is ASCII: some hosts cut lines at
// U+0085 and U+2028. Invalid UTF-8 becomes U+FFFD. An id of 0 and a ts of 0
// are left out.
//
// It fails only where a raw JSON value of d is not JSON.
func AppendLine(dst []byte, id, ts int64, d Data) ([]byte, error) {
	dst = append(dst, '{')
	if id != 0 {
		dst = append(dst, `"id":`...)
		dst = strconv.AppendInt(dst, id, 10)
		dst = append(dst, ',')
	}
	if ts != 0 {
		dst = append(dst, `"ts":`...)
		dst = strconv.AppendInt(dst, ts, 10)
		dst = append(dst, ',')
	}
	switch v := d.(type) { // nearly all of a stream
	case MessageDelta:
		dst = append(dst, `"type":"`+TypeMessageDelta+`","data":{"delta":"`...)
		dst = appendText(dst, v.Delta)
		dst = append(dst, `","message_id":"`...)
		dst = appendText(dst, v.MessageID)
		return append(dst, `"}}`...), nil
	case ReasoningDelta:
		dst = append(dst, `"type":"`+TypeReasoningDelta+`","data":{"delta":"`...)
		dst = appendText(dst, v.Delta)
		dst = append(dst, `","reasoning_id":"`...)
		dst = appendText(dst, v.ReasoningID)
		return append(dst, `"`+reasoningExtensions+`}}`...), nil
	}
	dst = append(dst, `"type":`...)
	dst = appendString(dst, string(d.EventType()))
	dst = append(dst, `,"data":`...)
	dst, err := appendData(dst, d)
	if err != nil {
		return dst, fmt.Errorf("events: encode %s: %w", d.EventType(), err)
	}
	return append(dst, '}'), nil
}

// appendData writes what closes a text by hand, since that carries all of it
// once more and encoding/json costs ten times as much.
func appendData(dst []byte, d Data) ([]byte, error) {
	switch v := d.(type) {
	case Reasoning:
		dst = slices.Grow(dst, len(v.Content)+len(v.Content)/16)
		dst = append(dst, `{"content":`...)
		dst = appendString(dst, v.Content)
		dst = append(dst, `,"reasoning_id":`...)
		dst = appendString(dst, v.ReasoningID)
		dst = append(dst, reasoningExtensions...)
		return append(dst, '}'), nil
	case Message:
		if len(v.ToolCalls) == 0 && len(v.Extensions) == 0 {
			return appendMessage(dst, v), nil
		}
	case ToolCall:
		return appendJSON(dst, toolCallWire{toolCallAlias(v), telemetry(v.Name)})
	}
	return appendJSON(dst, d)
}

// appendMessage writes a message without calls and extensions.
func appendMessage(dst []byte, m Message) []byte {
	dst = slices.Grow(dst, len(m.Content)+len(m.Content)/16)
	dst = append(dst, `{"content":`...)
	dst = appendString(dst, m.Content)
	dst = append(dst, `,"message_id":`...)
	dst = appendString(dst, m.MessageID)
	if m.FinishReason != "" {
		dst = append(dst, `,"finish_reason":`...)
		dst = appendString(dst, m.FinishReason)
	}
	if m.Partial {
		dst = append(dst, `,"partial":true`...)
	}
	if m.Synthetic {
		dst = append(dst, `,"synthetic":true`...)
	}
	return append(dst, '}')
}

type toolCallAlias ToolCall

type toolCallWire struct {
	toolCallAlias
	Extensions []Extension `json:"extensions"`
}

func telemetry(tool string) []Extension {
	data, _ := json.Marshal(struct {
		ToolName string `json:"tool_name"`
		Phase    string `json:"phase"`
	}{tool, "pre"})
	return []Extension{{URI: TelemetryExtension, Data: data}}
}

func appendJSON(dst []byte, v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return dst, err
	}
	return appendASCII(dst, bytes.TrimRight(buf.Bytes(), "\n")), nil
}

// appendASCII copies JSON text and escapes what is not ASCII, which can only
// stand inside strings.
func appendASCII(dst, js []byte) []byte {
	start := 0
	for i := 0; i < len(js); {
		if js[i] < utf8.RuneSelf && js[i] != 0x7f {
			i++
			continue
		}
		dst = append(dst, js[start:i]...)
		r, n := utf8.DecodeRune(js[i:])
		dst = appendRune(dst, r)
		i += n
		start = i
	}
	return append(dst, js[start:]...)
}

// plain says which bytes stand for themselves in a string.
var plain = func() (p [256]bool) {
	for c := 0x20; c < 0x7f; c++ {
		p[c] = c != '"' && c != '\\'
	}
	return p
}()

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// allPlain says of eight bytes whether each is plain. It may say no where all
// are, never the other way round.
func allPlain(x uint64) bool {
	quote, back := x^('"'*ones), x^('\\'*ones)
	odd := x | (x + ones) // above 0x7e
	odd |= (x - 0x20*ones) &^ x
	odd |= (quote-ones)&^quote | (back-ones)&^back
	return odd&highs == 0
}

func eight(s string, i int) uint64 {
	s = s[i : i+8]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

const hexDigits = "0123456789abcdef"

// appendString appends s as an ASCII JSON string.
func appendString(dst []byte, s string) []byte {
	return append(appendText(append(dst, '"'), s), '"')
}

// appendText appends what stands between the quotes.
func appendText(dst []byte, s string) []byte {
	start := 0
	for i := 0; ; {
		for i+8 <= len(s) && allPlain(eight(s, i)) {
			i += 8
		}
		for i < len(s) && plain[s[i]] {
			if i++; i&7 == 0 {
				break // eight at a time again
			}
		}
		if i == len(s) {
			return append(dst, s[start:]...)
		}
		if plain[s[i]] {
			continue
		}
		dst = append(dst, s[start:i]...)
		var n int
		dst, n = appendEscaped(dst, s[i:])
		i += n
		start = i
	}
}

// appendEscaped appends the first character of s, which is not plain, and says
// how many bytes of s it is.
func appendEscaped(dst []byte, s string) ([]byte, int) {
	switch c := s[0]; {
	case c == '"' || c == '\\':
		return append(dst, '\\', c), 1
	case c == '\n':
		return append(dst, '\\', 'n'), 1
	case c == '\r':
		return append(dst, '\\', 'r'), 1
	case c == '\t':
		return append(dst, '\\', 't'), 1
	case c < utf8.RuneSelf:
		return appendRune(dst, rune(c)), 1
	}
	r, n := utf8.DecodeRuneInString(s)
	return appendRune(dst, r), n
}

// appendRune appends \uXXXX, or the pair of surrogates of a rune above U+FFFF.
func appendRune(dst []byte, r rune) []byte {
	if r > 0xffff {
		r -= 0x10000
		dst = appendU16(dst, 0xd800+uint16(r>>10))
		return appendU16(dst, 0xdc00+uint16(r&0x3ff))
	}
	return appendU16(dst, uint16(r))
}

func appendU16(dst []byte, u uint16) []byte {
	return append(dst, '\\', 'u', hexDigits[u>>12], hexDigits[u>>8&15], hexDigits[u>>4&15], hexDigits[u&15])
}
