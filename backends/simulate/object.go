package simulate

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
)

// object is a JSON object of a script that is being read. What is wrong goes
// to its reader; a value that is absent or wrong reads as zero.
type object struct {
	r      *reader
	field  string
	fields map[string]json.RawMessage
}

func (r *reader) object(field string, raw json.RawMessage) *object {
	o := &object{r: r, field: field}
	if err := json.Unmarshal(raw, &o.fields); err != nil || isNull(raw) {
		r.fail(field, "must be an object")
	}
	return o
}

// inner reads the object under a key, which may have only the given keys.
func (o *object) inner(key string, known ...string) *object {
	in := o.r.object(o.path(key), o.fields[key])
	in.only(known...)
	return in
}

func (o *object) path(key string) string { return o.field + "." + key }

func (o *object) keys() []string { return slices.Sorted(maps.Keys(o.fields)) }

func (o *object) has(key string) bool { _, ok := o.fields[key]; return ok }

func (o *object) only(known ...string) {
	for _, key := range o.keys() {
		if !slices.Contains(known, key) {
			o.r.fail(o.path(key), "unknown key; here stand: %s", strings.Join(known, ", "))
		}
	}
}

// need says that a key must be there.
func (o *object) need(key string) {
	if !o.has(key) {
		o.r.fail(o.path(key), "is missing")
	}
}

func (o *object) value(key string, into any, what string) {
	raw, ok := o.fields[key]
	if !ok {
		return
	}
	if err := json.Unmarshal(raw, into); err != nil || isNull(raw) {
		o.r.fail(o.path(key), "must be %s", what)
	}
}

func (o *object) str(key string) (s string) {
	o.value(key, &s, "a string")
	return s
}

// oneOf reads a word of a list; "" when absent.
func (o *object) oneOf(key string, known ...string) string {
	s := o.str(key)
	if o.has(key) && !slices.Contains(known, s) {
		o.r.fail(o.path(key), "must be one of %s", strings.Join(known, ", "))
	}
	return s
}

// yes reads a key whose only value is true.
func (o *object) yes(key string) {
	var v bool
	if o.value(key, &v, "true"); !v {
		o.r.fail(o.path(key), "must be true")
	}
}

func (o *object) integer(key string, low, high int64) (n int64) {
	o.value(key, &n, "a whole number")
	if o.has(key) && (n < low || n > high) {
		o.r.fail(o.path(key), "must be from %d to %d", low, high)
	}
	return n
}

func (o *object) number(key string) (n float64) {
	o.value(key, &n, "a number")
	if n < 0 {
		o.r.fail(o.path(key), "must not be negative")
	}
	return n
}

// ms reads a time in milliseconds.
func (o *object) ms(key string) time.Duration {
	return time.Duration(o.integer(key, 0, maxWait.Milliseconds())) * time.Millisecond
}

// raw reads a JSON object as it stands, for arguments and schemas; absent when
// it is not there.
func (o *object) raw(key, absent string) json.RawMessage {
	if !o.has(key) {
		if absent == "" {
			return nil
		}
		return json.RawMessage(absent)
	}
	var m map[string]json.RawMessage
	o.value(key, &m, "an object")
	return slices.Clone(o.fields[key])
}
