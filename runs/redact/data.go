package redact

import (
	"encoding/json"
	"reflect"
	"strings"

	"innerd/events"
)

// Data is an event without secrets in its texts. What the wire needs to be as
// it is stays: ids, names of states and kinds. Pieces of a text, and the whole
// that sums them up, are for a Stream, and come back as they are.
func (s *Set) Data(d events.Data) events.Data {
	if s == nil || d == nil {
		return d
	}
	switch d.(type) {
	case events.MessageDelta, events.ReasoningDelta, events.Reasoning, events.TaskID, events.Heartbeat:
		return d
	}
	v := reflect.New(reflect.TypeOf(d)).Elem()
	v.Set(reflect.ValueOf(d))
	_, message := d.(events.Message)
	s.fields(v, message)
	out, _ := v.Interface().(events.Data) // it was one
	return out
}

var rawType = reflect.TypeFor[json.RawMessage]()

// fields redacts a struct in place; whole leaves its Content.
func (s *Set) fields(v reflect.Value, whole bool) {
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if fixed(name) || whole && name == "Content" {
			continue
		}
		s.value(v.Field(i))
	}
}

// value redacts what can be set, and never what others see too.
func (s *Set) value(v reflect.Value) {
	switch {
	case v.Type() == rawType:
		v.SetBytes(s.JSON(v.Bytes()))
	case v.Kind() == reflect.String:
		if in := v.String(); in != "" {
			v.SetString(s.Text(in))
		}
	case v.Kind() == reflect.Struct:
		s.fields(v, false)
	case v.Kind() == reflect.Pointer && !v.IsNil() && v.Elem().Kind() == reflect.Struct:
		own := reflect.New(v.Elem().Type())
		own.Elem().Set(v.Elem())
		s.fields(own.Elem(), false)
		v.Set(own)
	case v.Kind() == reflect.Slice && v.Len() > 0 && (v.Type().Elem().Kind() == reflect.String || v.Type().Elem().Kind() == reflect.Struct):
		own := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(own, v)
		for i := range own.Len() {
			s.value(own.Index(i))
		}
		v.Set(own)
	}
}

// fixed are the fields that hosts find things by, and bytes that are no text.
func fixed(field string) bool {
	switch field {
	case "ID", "Type", "ErrorType", "State", "Outcome", "By", "Kind", "Mode", "FinishReason", "Signal", "Backend", "URI", "Data", "MimeType", "Status":
		return true
	}
	return strings.HasSuffix(field, "ID")
}
