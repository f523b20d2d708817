package runs

import (
	"encoding/json"
	"unicode/utf8"
)

// appendText writes a text as JSON. encoding/json looks at each byte of it
// twice more, which counts for a history of many megabytes.
func appendText(dst []byte, s string) []byte {
	if !utf8.ValidString(s) {
		quoted, _ := json.Marshal(s) // a string always encodes
		return append(dst, quoted...)
	}
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			const hex = "0123456789abcdef"
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return append(append(dst, s[from:]...), '"')
}
