package api

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// A request of many megabytes is a few long texts, images and files. The JSON
// decoder looks through each of them once for every level that they are nested
// in, ten times and more, so that 60 MB took seconds. Hollow takes the long
// strings out first.

const (
	hollowFrom = 1 << 20 // bytes of a body that is worth it
	hollowText = 8 << 10 // bytes of a string that is taken out
)

// Hollow is the body of a request whose long strings, of messages alone, are
// replaced by short ones that are nowhere else.
type Hollow struct {
	whole []byte // the body as it came
	small []byte
	mark  string   // begins each of the short strings
	taken [][]byte // as they stood in the body, with their quotes
}

// NewHollow makes the hollow form of a body. A small one, or one that is not
// JSON, is left as it is.
func NewHollow(body []byte) *Hollow { return newHollow(body, hollowFrom, hollowText) }

func newHollow(body []byte, from, text int) *Hollow {
	h := &Hollow{whole: body, small: body}
	if len(body) < from {
		return h
	}
	h.mark = "long-" + strings.ToLower(rand.Text()) + "-"
	if !h.takeOut(body, text) {
		return &Hollow{whole: body, small: body}
	}
	return h
}

// Body is the hollow form, which is JSON where the body is.
func (h *Hollow) Body() []byte { return h.small }

// takeOut walks over the body. It checks no more of it than the strings that
// it takes: the decoder sees the rest.
func (h *Hollow) takeOut(body []byte, text int) bool {
	small := make([]byte, 0, 64<<10)
	depth, inMessages, from := 0, false, 0
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case '"':
			end := stringEnd(body, i)
			if end < 0 {
				return false
			}
			lit := body[i:end]
			switch {
			case depth == 1 && isKey(body, end):
				inMessages = string(lit) == `"messages"`
			case depth > 1 && inMessages && len(lit) >= text && !isKey(body, end):
				if !validString(lit) {
					return false
				}
				small = append(small, body[from:i]...)
				small = append(small, '"')
				small = append(small, h.name(len(h.taken))...)
				small = append(small, '"')
				h.taken = append(h.taken, lit)
				from = end
			}
			i = end - 1
		}
	}
	h.small = append(small, body[from:]...)
	return true
}

// name is the short string in the place of a long one.
func (h *Hollow) name(i int) string { return h.mark + strconv.Itoa(i) + "." }

// isKey reports whether a colon follows.
func isKey(b []byte, at int) bool {
	for at < len(b) && (b[at] == ' ' || b[at] == '\t' || b[at] == '\n' || b[at] == '\r') {
		at++
	}
	return at < len(b) && b[at] == ':'
}

// validString reports whether a string that ends is one of JSON.
func validString(lit []byte) bool {
	for i := 1; i < len(lit)-1; i++ {
		switch c := lit[i]; {
		case c < 0x20:
			return false
		case c == '\\':
			i++
			switch lit[i] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				if i+4 >= len(lit)-1 {
					return false
				}
				for _, x := range lit[i+1 : i+5] {
					if (x < '0' || x > '9') && (x < 'a' || x > 'f') && (x < 'A' || x > 'F') {
						return false
					}
				}
			default:
				return false
			}
		}
	}
	return true
}

// Decode reads the request. A fault is as DecodeRequest's.
func (h *Hollow) Decode() (*Request, error) {
	r := &Request{}
	if err := r.decode(h.small); err != nil {
		return nil, err
	}
	if len(h.taken) > 0 {
		for i := range r.Messages {
			h.restore(&r.Messages[i])
		}
	}
	return r, nil
}

// restore puts the long strings back into a message.
func (h *Hollow) restore(m *Message) {
	for _, s := range []*string{&m.Role, &m.Content, &m.Reasoning, &m.RedactedReasoning, &m.ToolName, &m.ToolCallID} {
		h.put(s)
	}
	for _, list := range [][]Attachment{m.Images, m.Files, m.Audio, m.Videos, m.ImageOutput, m.FileOutput, m.AudioOutput, m.VideoOutput} {
		for i := range list {
			a := &list[i]
			for _, s := range []*string{&a.URL, &a.FilePath, &a.Content, &a.MimeType, &a.ID, &a.AltText, &a.Filename, &a.Name, &a.Transcript, &a.Format} {
				h.put(s)
			}
		}
	}
	for i := range m.ToolCalls {
		c := &m.ToolCalls[i]
		h.put(&c.ID)
		h.put(&c.Name)
		if strings.Contains(string(c.Arguments), h.mark) {
			c.Arguments = arguments(h.Fill(c.Arguments))
		}
	}
	if strings.Contains(string(m.Citations), h.mark) {
		m.Citations = h.Fill(m.Citations)
	}
}

// put replaces the short strings in a text.
func (h *Hollow) put(s *string) {
	if !strings.Contains(*s, h.mark) {
		return
	}
	if len(*s) < len(h.mark)+8 { // nothing but one of them, most likely
		if i, rest, ok := h.index((*s)[len(h.mark):]); ok && rest == "" && strings.HasPrefix(*s, h.mark) {
			*s = unquote(h.taken[i])
			return
		}
	}
	*s = string(h.replace([]byte(*s), func(i int) []byte { return []byte(unquote(h.taken[i])) }, false))
}

// Fill puts the long strings back into JSON that was made of the hollow form.
func (h *Hollow) Fill(raw []byte) []byte {
	return h.replace(raw, func(i int) []byte { return h.taken[i] }, true)
}

// Name replaces the short strings in JSON by what is the same for the same long
// ones.
func (h *Hollow) Name(raw []byte) []byte {
	return h.replace(raw, func(i int) []byte {
		sum := sha256.Sum256(h.taken[i])
		return []byte(`"sha256:` + hex.EncodeToString(sum[:]) + `"`)
	}, true)
}

// replace gives raw with each short string, and its quotes where quoted, as of
// says.
func (h *Hollow) replace(raw []byte, of func(int) []byte, quoted bool) []byte {
	if len(h.taken) == 0 {
		return raw
	}
	mark := []byte(h.mark)
	var pieces [][]byte
	for {
		at := bytes.Index(raw, mark)
		if at < 0 {
			break
		}
		i, rest, ok := h.index(string(raw[at+len(mark) : min(at+len(mark)+12, len(raw))]))
		if !ok {
			break // only we make such names
		}
		end := at + len(mark) + min(12, len(raw)-at-len(mark)) - len(rest)
		if quoted {
			at, end = at-1, end+1
		}
		pieces = append(pieces, raw[:at], of(i))
		raw = raw[end:]
	}
	return bytes.Join(append(pieces, raw), nil)
}

// index reads the number that ends one of our names.
func (h *Hollow) index(s string) (i int, rest string, ok bool) {
	number, rest, found := strings.Cut(s, ".")
	i, err := strconv.Atoi(number)
	return i, rest, found && err == nil && i >= 0 && i < len(h.taken)
}
