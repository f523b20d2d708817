package events

import (
	"bytes"
	"encoding/json"
	"fmt"
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
	switch d.(type) { // a fixed text is cheaper than one that may need escapes
	case MessageDelta:
		dst = append(dst, `"type":"`+TypeMessageDelta+`","data":`...)
	case ReasoningDelta:
		dst = append(dst, `"type":"`+TypeReasoningDelta+`","data":`...)
	default:
		dst = append(dst, `"type":`...)
		dst = appendString(dst, string(d.EventType()))
		dst = append(dst, `,"data":`...)
	}
	dst, err := appendData(dst, d)
	if err != nil {
		return dst, fmt.Errorf("events: encode %s: %w", d.EventType(), err)
	}
	return append(dst, '}'), nil
}

// appendData writes the frequent types by hand: they are nearly all of a
// stream, and encoding/json costs ten times as much.
func appendData(dst []byte, d Data) ([]byte, error) {
	switch v := d.(type) {
	case MessageDelta:
		dst = append(dst, `{"delta":`...)
		dst = appendString(dst, v.Delta)
		dst = append(dst, `,"message_id":`...)
		dst = appendString(dst, v.MessageID)
		return append(dst, '}'), nil
	case ReasoningDelta:
		dst = append(dst, `{"delta":`...)
		dst = appendString(dst, v.Delta)
		dst = append(dst, `,"reasoning_id":`...)
		dst = appendString(dst, v.ReasoningID)
		dst = append(dst, reasoningExtensions...)
		return append(dst, '}'), nil
	case Reasoning:
		dst = append(dst, `{"content":`...)
		dst = appendString(dst, v.Content)
		dst = append(dst, `,"reasoning_id":`...)
		dst = appendString(dst, v.ReasoningID)
		dst = append(dst, reasoningExtensions...)
		return append(dst, '}'), nil
	case ToolCall:
		return appendJSON(dst, toolCallWire{toolCallAlias(v), telemetry(v.Name)})
	}
	return appendJSON(dst, d)
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

const hexDigits = "0123456789abcdef"

// appendString appends s as an ASCII JSON string.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if plain[c] {
			i++
			continue
		}
		dst = append(dst, s[start:i]...)
		n := 1
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c == '\t':
			dst = append(dst, '\\', 't')
		case c < utf8.RuneSelf:
			dst = appendRune(dst, rune(c))
		default:
			var r rune
			r, n = utf8.DecodeRuneInString(s[i:])
			dst = appendRune(dst, r)
		}
		i += n
		start = i
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
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
