package host

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/invopop/jsonschema"
)

// anyObject is the schema of a tool that says nothing of its arguments.
var anyObject = json.RawMessage(`{"type":"object","properties":{}}`)

// reflectSchema makes the JSON Schema of a type of arguments.
func reflectSchema(t reflect.Type) (json.RawMessage, error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[json.RawMessage]():
		return anyObject, nil
	case t.Kind() == reflect.Map && t.Key().Kind() == reflect.String:
		return anyObject, nil
	case t.Kind() != reflect.Struct:
		return nil, fmt.Errorf("arguments are an object: %s is no struct and no map", t)
	}
	w := walk{seen: map[reflect.Type]bool{}}
	if err := w.check(t, t.Name()); err != nil {
		return nil, err
	}
	r := jsonschema.Reflector{
		Anonymous: true, ExpandedStruct: true,
		AllowAdditionalProperties: true,         // models add fields; json drops them
		DoNotReference:            !w.recursive, // some agents can't follow a $ref; reflecting a type that holds itself needs them
		Namer: func(t reflect.Type) string { // two packages may have a type of one name, and would share its definition
			return strings.NewReplacer("/", "_", ".", "_", "-", "_").Replace(t.PkgPath()) + "_" + t.Name()
		},
	}
	s := r.ReflectFromType(t)
	s.Version = "" // agents know the draft by themselves; one refuses the field
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	return raw, nil
}

// walk looks through a type before it is reflected: the reflector panics at a
// channel and never returns from a type that holds itself.
type walk struct {
	seen      map[reflect.Type]bool // on the way from the root
	recursive bool
}

func (w *walk) check(t reflect.Type, path string) error {
	switch t.Kind() {
	case reflect.Chan, reflect.Func, reflect.UnsafePointer, reflect.Complex64, reflect.Complex128:
		return fmt.Errorf("%s is a %s, which is no JSON; give it the tag json:\"-\"", path, t.Kind())
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return w.check(t.Elem(), path+"[]")
	case reflect.Struct:
	default:
		return nil
	}
	if t == reflect.TypeFor[time.Time]() || t.Implements(reflect.TypeFor[json.Marshaler]()) || t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
		return nil
	}
	if w.seen[t] {
		w.recursive = true
		return nil
	}
	w.seen[t] = true
	defer delete(w.seen, t)
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Tag.Get("json") == "-" || !f.IsExported() && !f.Anonymous {
			continue
		}
		if err := w.check(f.Type, path+"."+f.Name); err != nil {
			return err
		}
	}
	return nil
}

// splitSchema takes properties out of an object's schema: what is left, and an
// object of those alone, each with its texts.
func splitSchema(schema json.RawMessage, names []string) (rest, taken json.RawMessage, err error) {
	var s map[string]json.RawMessage
	if err := json.Unmarshal(schema, &s); err != nil {
		return nil, nil, errors.New("RequiresInput needs a Schema that is an object")
	}
	var props map[string]json.RawMessage
	if err := json.Unmarshal(s["properties"], &props); err != nil {
		return nil, nil, errors.New("RequiresInput needs a Schema with properties")
	}
	var required []string
	_ = json.Unmarshal(s["required"], &required) // absent: none
	out := map[string]json.RawMessage{}
	for _, n := range names {
		p, ok := props[n]
		if !ok {
			return nil, nil, fmt.Errorf("RequiresInput names %q, which is no property of its Schema", n)
		}
		out[n] = p
		delete(props, n)
	}
	s["properties"] = must(props)
	s["required"] = must(slices.DeleteFunc(slices.Clone(required), func(n string) bool { _, is := out[n]; return is }))
	if len(required) == 0 {
		delete(s, "required")
	}
	asked := map[string]json.RawMessage{
		"type": must("object"), "properties": must(out),
		"required": must(slices.DeleteFunc(required, func(n string) bool { _, is := out[n]; return !is })),
	}
	if d, ok := s["$defs"]; ok {
		asked["$defs"] = d
	}
	return must(s), must(asked), nil
}

// must marshals what was unmarshalled before.
func must(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}
