package toolbridge

import (
	"bytes"
	"encoding/json"
	"io"
)

// canonical is one spelling of a JSON value: keys sorted, no white space,
// numbers as they came. What is not JSON is left as it is.
func canonical(raw []byte) []byte {
	v, ok := decode(raw)
	if !ok {
		return raw
	}
	out, err := json.Marshal(v)
	if err != nil {
		return raw
	}
	return out
}

// decode reads one whole JSON value, with its numbers as they are written.
func decode(raw []byte) (any, bool) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil, false
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, false
	}
	return v, true
}

// quoted is raw itself, or, where it is not JSON, a JSON string of it, so
// that nothing an agent says makes an event that can't be encoded.
func quoted(raw json.RawMessage) json.RawMessage {
	if json.Valid(raw) {
		return raw
	}
	out, _ := json.Marshal(string(raw))
	return out
}
