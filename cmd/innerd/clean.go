package main

import (
	"strings"
	"unicode/utf8"
)

// The styles that a printer uses.
const (
	styleReset = "\x1b[0m"
	styleBold  = "\x1b[1m"
	styleDim   = "\x1b[2m"
)

// clean makes text fit for a terminal: of control characters only line ends,
// tabs and our own styles stay, the others become visible. What an agent says
// must not move the cursor, or it could draw a question that we never asked.
func clean(s string) string {
	if strings.IndexFunc(s, control) < 0 {
		return s
	}
	var b strings.Builder
	for s != "" {
		if s[0] == 0x1b && (strings.HasPrefix(s, styleReset) || strings.HasPrefix(s, styleBold) || strings.HasPrefix(s, styleDim)) {
			b.WriteString(s[:len(styleReset)])
			s = s[len(styleReset):]
			continue
		}
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case !control(r):
			b.WriteRune(r)
		case r < 0x20:
			b.WriteRune(0x2400 + r) // the pictures of these characters
		case r == 0x7f:
			b.WriteRune(0x2421)
		default:
			b.WriteRune(utf8.RuneError)
		}
		s = s[n:]
	}
	return b.String()
}

// control reports whether a character does something to a terminal, or turns
// the direction of text.
func control(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < 0x20 || (r >= 0x7f && r < 0xa0):
		return true
	}
	return (r >= 0x202a && r <= 0x202e) || (r >= 0x2066 && r <= 0x2069)
}
