package api

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// kind is the first byte of a JSON value: '{', '[', '"', 'n' for null, 't' for
// a boolean, '0' for a number, 0 for nothing.
func kind(raw []byte) byte {
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
func kindName(raw []byte) string {
	switch kind(raw) {
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
func absent(raw []byte) bool { k := kind(raw); return k == 0 || k == 'n' }

// looseString is a string that may come as any JSON value: numbers and booleans
// by their text, everything else as "". As all that is loose, it is of valid JSON.
func looseString(raw []byte) string {
	switch kind(raw) {
	case '"':
		return unquote(bytes.TrimSpace(raw))
	case '0', 't':
		return string(bytes.TrimSpace(raw))
	}
	return ""
}

// looseFlag is a boolean that may come as any JSON value.
func looseFlag(raw []byte) bool {
	b := looseBool(raw)
	return b != nil && *b
}

func looseBool(raw []byte) *bool {
	var s string
	switch kind(raw) {
	case 't', '0':
		s = string(bytes.TrimSpace(raw))
	case '"':
		s = strings.TrimSpace(looseString(raw))
	}
	if b, err := strconv.ParseBool(s); err == nil {
		return &b
	}
	return nil
}

// looseInt is a count that may come as any JSON value; what is not a positive
// number is 0.
func looseInt(raw []byte) int {
	f, err := strconv.ParseFloat(strings.TrimSpace(looseString(raw)), 64)
	if err != nil || !(f > 0) {
		return 0
	}
	return int(min(f, math.MaxInt32))
}

// looseList is the elements of a list, or the one value that stands where a list
// should, as pieces of raw.
func looseList(raw []byte) []json.RawMessage {
	switch kind(raw) {
	case 0, 'n':
		return nil
	case '[':
		return elements(raw)
	}
	return []json.RawMessage{raw}
}
