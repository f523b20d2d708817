package openapi

import (
	"fmt"
	"reflect"

	"github.com/invopop/jsonschema"

	"innerd/adapter/api"
	"innerd/events"
)

// amend says what the Go types of bodies do not: what the server reads beside
// the one shape that it keeps, and which words a text may be.
func (s *schemas) amend() error {
	a := amender{s: s}
	a.lenient("Request")
	a.lenient("Message")
	a.lenient("Attachment")
	a.lenient("Metadata")
	a.lenient("ToolCall")
	a.required("ToolResult")
	a.texts()
	a.put("Request", "context_id", func(p *jsonschema.Schema) {
		p.Description = "any text of up to 512 bytes; missing, empty or default: a conversation of the run's own"
	})
	a.put("Metadata", "task_id", func(p *jsonschema.Schema) {
		p.AnyOf[0].Pattern = `^[A-Za-z0-9_-]{8,64}$`
		p.Description = "an id of the host's own, with which the request can be sent again"
	})
	for _, field := range []string{"response_format", "agent_options"} {
		a.put("Metadata", field, func(p *jsonschema.Schema) {
			p.AnyOf = []*jsonschema.Schema{{Type: "object"}, {Type: "null"}}
		})
	}
	a.put("Tool", "parameters", func(p *jsonschema.Schema) { p.Type = "object" })
	a.words()
	return a.err
}

// texts are the shapes of a message's parts.
func (a *amender) texts() {
	a.put("Message", "content", func(p *jsonschema.Schema) {
		part := &jsonschema.Schema{Type: "object", Description: "text or content"}
		list := &jsonschema.Schema{Type: "array", Items: &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string"}, part, {Type: "null"}}}}
		p.AnyOf = append(p.AnyOf, list)
	})
	for _, field := range []string{"images", "files", "audio", "videos", "image_output", "file_output", "audio_output", "video_output"} {
		a.put("Message", field, func(p *jsonschema.Schema) {
			p.AnyOf = append(p.AnyOf, &jsonschema.Schema{Ref: "#/$defs/Attachment"})
		})
	}
	nested := &jsonschema.Schema{Type: "object", Properties: jsonschema.NewProperties(), Required: []string{"function"}}
	nested.Properties.Set("id", &jsonschema.Schema{Type: "string"})
	nested.Properties.Set("function", &jsonschema.Schema{Ref: "#/$defs/ToolCall"})
	a.put("Message", "tool_calls", func(p *jsonschema.Schema) {
		p.AnyOf[0].Items = &jsonschema.Schema{AnyOf: []*jsonschema.Schema{nested, {Ref: "#/$defs/ToolCall"}}}
	})
	function := &jsonschema.Schema{Type: "object", Properties: jsonschema.NewProperties(), Required: []string{"function"}}
	function.Properties.Set("type", &jsonschema.Schema{Type: "string"})
	function.Properties.Set("function", &jsonschema.Schema{Ref: "#/$defs/Tool"})
	a.put("Metadata", "native_tool_schemas", func(p *jsonschema.Schema) {
		p.AnyOf[0].Items = &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Ref: "#/$defs/Tool"}, function}}
	})
	if d := a.def("Tool"); d != nil { // in Go it is the opposite, serial
		d.Properties.Set("parallel", &jsonschema.Schema{Type: "boolean", Description: "false: never two calls at once"})
	}
}

// words are the texts that are one of a few.
func (a *amender) words() {
	states := words(states()...)
	for _, w := range []struct {
		def, field string
		words      []any
	}{
		{"Metadata", "on_busy", words(api.BusyQueue, api.BusyReject, api.BusyCancel)},
		{"Metadata", "permission_mode", words(api.PermissionAuto, api.PermissionAsk, api.PermissionDeny)},
		{"Metadata", "background", words(api.BackgroundEnd, api.BackgroundWait)},
		{"TaskStatus", "state", states},
		{"TaskError", "error_type", words(runErrors()...)},
		{"Error", "error_type", words(ErrorTypes()...)},
		{"Gone", "error_type", words(api.ErrNotFound)},
		{"Conversation", "state", words("idle", "running", "cold")},
		{"ToolResultStatus", "status", words(api.StatusOK, api.StatusNotFound)},
		{"Health", "status", words(api.StatusOK)},
		{"Pending", "kind", words(string(events.KindTool), string(events.KindPermission), string(events.KindQuestion))},
		{"Breaker", "state", words("closed", "open", "half-open")},
		{"EventEnd", "state", words(events.Completed, events.Failed, events.Canceled)},
		{"EventError", "error_type", words(runErrors()...)},
		{"EventPart", "type", words(events.PartText, events.PartImage, events.PartAudio, events.PartVideo, events.PartFile, events.PartJSON)},
	} {
		a.put(w.def, w.field, func(p *jsonschema.Schema) {
			if len(p.AnyOf) > 0 {
				p = p.AnyOf[0]
			}
			p.Enum = w.words
		})
	}
}

// runErrors are the error_types of runs, ErrorTypes all of HTTP answers.
func runErrors() []string {
	return []string{
		events.ErrAuth, events.ErrRateLimit, events.ErrQuota, events.ErrOverloaded, events.ErrInvalidRequest, events.ErrContextLength,
		events.ErrModelUnavailable, events.ErrBackendUnavailable, events.ErrBackendCrashed, events.ErrTimeout, events.ErrStalled,
		events.ErrCanceled, events.ErrShutdown, events.ErrAdapterRestarted, events.ErrEmptyTurn, events.ErrStorage, events.ErrInternal,
	}
}

// ErrorTypes are the words of error_type in HTTP answers.
func ErrorTypes() []string {
	return append(runErrors(), api.ErrUnauthorized, api.ErrNotFound, api.ErrConflict, api.ErrBusy, api.ErrTooLarge, api.ErrUnsupported)
}

func words(all ...string) (out []any) {
	for _, w := range all {
		out = append(out, w)
	}
	return out
}

// amender keeps the first fault: an amendment of what is not there is one.
type amender struct {
	s   *schemas
	err error
}

func (a *amender) def(name string) *jsonschema.Schema {
	d, ok := a.s.defs[name].(*jsonschema.Schema)
	if !ok && a.err == nil {
		a.err = fmt.Errorf("openapi: there is no schema %s to amend", name)
	}
	return d
}

// required makes these fields alone required.
func (a *amender) required(name string, fields ...string) {
	if d := a.def(name); d != nil {
		d.Required = fields
	}
}

// lenient makes no field required and null the same as absent.
func (a *amender) lenient(name string) {
	d := a.def(name)
	if d == nil {
		return
	}
	d.Required = nil
	for p := d.Properties.Oldest(); p != nil; p = p.Next() {
		was, about := p.Value, p.Value.Description
		if was.Description = ""; reflect.DeepEqual(was, &jsonschema.Schema{}) {
			was.Description = about
			continue // anything, so null too
		}
		p.Value = &jsonschema.Schema{Description: about, AnyOf: []*jsonschema.Schema{was, {Type: "null"}}}
	}
}

// put changes one field.
func (a *amender) put(name, field string, change func(*jsonschema.Schema)) {
	d := a.def(name)
	if d == nil {
		return
	}
	p, ok := d.Properties.Get(field)
	switch {
	case ok && p != nil:
		was := *p // the schemas of some types are shared
		change(&was)
		d.Properties.Set(field, &was)
	case a.err == nil:
		a.err = fmt.Errorf("openapi: %s has no field %s to amend", name, field)
	}
}
