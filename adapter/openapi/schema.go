package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/invopop/jsonschema"

	"innerd/adapter/api"
	"innerd/events"
)

// reflector makes schemas of Go types. Their comments become descriptions.
func reflector(root string) (*jsonschema.Reflector, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	r := &jsonschema.Reflector{
		AllowAdditionalProperties: true, Anonymous: true, Namer: nameOf, Mapper: mapped, CommentMap: map[string]string{},
	}
	found := &jsonschema.Reflector{}
	for _, room := range []string{"events", "adapter/api", "adapter/a2a/spec", "adapter/openapi"} {
		if err := found.AddGoComments("innerd", filepath.Join(root, room), jsonschema.WithFullComment()); err != nil {
			return nil, fmt.Errorf("openapi: the comments of %s: %w", room, err)
		}
	}
	for name, words := range found.CommentMap {
		words = strings.Join(strings.Fields(words), " ")
		r.CommentMap[strings.Replace(name, "innerd"+root, "innerd", 1)] = words
	}
	return r, nil
}

// nameOf keeps types of one name in different packages apart.
func nameOf(t reflect.Type) string {
	switch pkg := t.PkgPath(); {
	case strings.HasSuffix(pkg, "innerd/events"):
		return "Event" + t.Name()
	case strings.HasSuffix(pkg, "a2a/spec"):
		return "A2A" + t.Name()
	}
	return t.Name()
}

// mapped are the types that are written otherwise than they are declared.
func mapped(t reflect.Type) *jsonschema.Schema {
	if t == reflect.TypeFor[api.Events]() {
		return &jsonschema.Schema{
			Description: "basic, all, ask, or types of events",
			AnyOf:       []*jsonschema.Schema{{Type: "string"}, {Type: "array", Items: &jsonschema.Schema{Type: "string"}}},
		}
	}
	return nil
}

// schemas collects the components.
type schemas struct {
	r      *jsonschema.Reflector
	defs   map[string]any
	shared map[string]any // answers that are errors
}

// of is the schema of a value of a table: that of its type, by reference, or
// the schema that it is.
func (s *schemas) of(v any) any {
	if is, ok := v.(map[string]any); ok {
		return is
	}
	return ref(s.add(reflect.TypeOf(v)))
}

// add puts a type and all that it holds into the components.
func (s *schemas) add(t reflect.Type) (name string) {
	made := s.r.ReflectFromType(t)
	for name, def := range made.Definitions {
		spell(def)
		s.defs[name] = def
	}
	return nameOf(t)
}

// spell writes the schema of any value as an object: true, which is the same,
// is more than many readers of such documents know.
func spell(s *jsonschema.Schema) {
	for p := s.Properties.Oldest(); p != nil; p = p.Next() {
		p.Value = spelled(p.Value)
	}
	if s.Items != nil {
		s.Items = spelled(s.Items)
	}
}

func spelled(s *jsonschema.Schema) *jsonschema.Schema {
	if is, err := s.MarshalJSON(); err == nil && string(is) == "true" {
		return &jsonschema.Schema{Description: "any JSON value"}
	}
	if s.Properties != nil || s.Items != nil {
		spell(s)
	}
	return s
}

// addEvents puts the types of events into the components.
func (s *schemas) addEvents() error {
	mapping, all := map[string]string{}, []any{}
	for _, t := range events.Types() {
		d, err := dataOf(t)
		if err != nil {
			return err
		}
		s.defs[EventName(t)] = event(t, &jsonschema.Schema{Ref: "#/components/schemas/" + s.add(d)})
		mapping[string(t)] = "#/components/schemas/" + EventName(t)
		all = append(all, ref(EventName(t)))
	}
	s.defs["Event"] = map[string]any{
		"description":   "An event of a run: the data of a frame. Fields may be added to any type, and types, at any time.",
		"oneOf":         all,
		"discriminator": map[string]any{"propertyName": "type", "mapping": mapping},
	}
	return nil
}

// indented is JSON for people.
func indented(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("openapi: %w", err)
	}
	return buf.Bytes(), nil
}
