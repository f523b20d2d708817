package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"innerd/adapter/api"
)

const about = `innerd lends the inner loop of an agent to a coding agent in a sandbox: the host posts a turn and reads one stream of events.

Bodies are JSON; unknown fields of requests are ignored, and answers may gain fields at any time. A trailing slash is accepted, there are no
redirects, OPTIONS answers 204 everywhere, and HEAD is GET without its body where GET is a document. Every answer outside /a2a carries A2A-Version.

A path that is none of these is a 404 not_found, a method that its path does not know a 405 unsupported; below /a2a and /v0.3 both are said as
A2A says it, or as text. What is no request of HTTP/1.1 (no Host, a header that is none, a Transfer-Encoding or version that nobody knows) is
answered as text with 400, 501 or 505, and the connection is closed. An open server (--auth=off, or the
launch of the field without keys) asks for no key. What fails after a run was accepted is a session.error in its stream, never a status.`

type document struct {
	OpenAPI    string                    `json:"openapi"`
	Info       map[string]any            `json:"info"`
	Servers    []map[string]any          `json:"servers"`
	Security   []map[string][]string     `json:"security"`
	Tags       []map[string]string       `json:"tags"`
	Paths      map[string]map[string]any `json:"paths"`
	Components map[string]any            `json:"components"`
}

type operation struct {
	ID        string                 `json:"operationId"`
	Tags      []string               `json:"tags"`
	Summary   string                 `json:"summary"`
	About     string                 `json:"description,omitempty"`
	Security  *[]map[string][]string `json:"security,omitempty"`
	Params    []parameter            `json:"parameters,omitempty"`
	Body      *requestBody           `json:"requestBody,omitempty"`
	Responses map[string]any         `json:"responses"`
}

type parameter struct {
	Name     string `json:"name"`
	In       string `json:"in"`
	About    string `json:"description,omitempty"`
	Required bool   `json:"required,omitempty"`
	Schema   any    `json:"schema"`
	Example  any    `json:"example,omitempty"`
}

type requestBody struct {
	Required bool           `json:"required,omitempty"`
	Content  map[string]any `json:"content"`
}

// Build makes the OpenAPI document, as JSON for people. root is the folder of
// the module, whose comments the schemas have.
func Build(root string) ([]byte, error) {
	r, err := reflector(root)
	if err != nil {
		return nil, err
	}
	s := &schemas{r: r, defs: map[string]any{}, shared: map[string]any{}}
	if err := s.addEvents(); err != nil {
		return nil, err
	}
	s.of(api.Gone{})
	doc := document{
		OpenAPI:  "3.1.0",
		Info:     map[string]any{"title": "innerd", "version": "1.0", "description": about, "license": map[string]any{"name": "Apache-2.0", "identifier": "Apache-2.0"}},
		Servers:  []map[string]any{{"url": "http://localhost:18100", "description": "the sandbox"}},
		Security: []map[string][]string{{"bearer": {}}},
		Tags:     tags(), Paths: map[string]map[string]any{},
	}
	for _, o := range Operations() {
		made, err := s.operation(o)
		if err != nil {
			return nil, err
		}
		at := doc.Paths[o.Path]
		if at == nil {
			at = map[string]any{}
			doc.Paths[o.Path] = at
		}
		if at[strings.ToLower(o.Method)] != nil {
			return nil, fmt.Errorf("openapi: %s %s stands twice in the table", o.Method, o.Path)
		}
		at[strings.ToLower(o.Method)] = made
	}
	responses := a2aResponses()
	maps.Copy(responses, s.shared)
	either := jsonOf(map[string]any{"type": "object"}, nil)
	either["application/problem+json"] = either["application/json"] // HTTP+JSON of 0.3 says it so
	responses["A2A03Error"] = map[string]any{"description": "an error, as A2A 0.3 has it", "content": either}
	for _, f := range Beforehand() {
		responses[fmt.Sprintf("HTTP%d", f.Status)] = early(f)
	}
	for _, f := range Anywhere() {
		responses[fmt.Sprintf("Anywhere%d", f.Status)] = s.faulty([]Fault{f})
	}
	s.own()
	if err := s.amend(); err != nil {
		return nil, err
	}
	doc.Components = map[string]any{"schemas": s.defs, "responses": responses, "securitySchemes": map[string]any{
		"bearer":    map[string]any{"type": "http", "scheme": "bearer", "description": "a key of the server; what belongs to another key does not exist for you"},
		"bootstrap": map[string]any{"type": "http", "scheme": "bearer", "description": "the bootstrap key of a server that waits"},
	}}
	raw, err := indented(doc)
	return bytes.ReplaceAll(raw, []byte(`"#/$defs/`), []byte(`"#/components/schemas/`)), err
}

func tags() []map[string]string {
	return []map[string]string{
		{"name": "runs", "description": "Start a run: one turn of an agent"},
		{"name": "tasks", "description": "Runs that are there: look, follow, answer, cancel"},
		{"name": "tools", "description": "Results of the host's tools"},
		{"name": "conversations", "description": "The memories of agents"},
		{"name": "server", "description": "The server itself"},
		{"name": "agents", "description": "Cards of other agents, for hosts that look for one"},
		{"name": "a2a", "description": "A2A 1.0"},
		{"name": "a2a-0.3", "description": "A2A 0.3"},
	}
}

// own are the components that are no Go types of the server.
func (s *schemas) own() {
	rpc := func(more map[string]any, required ...string) map[string]any {
		props := map[string]any{"jsonrpc": map[string]any{"const": "2.0"}, "id": map[string]any{"type": []string{"string", "number", "null"}}}
		maps.Copy(props, more)
		return map[string]any{"type": "object", "required": append([]string{"jsonrpc", "id"}, required...), "properties": props}
	}
	failure := map[string]any{
		"type": "object", "required": []string{"code", "message"},
		"properties": map[string]any{"code": map[string]any{"type": "integer"}, "message": text(), "data": map[string]any{}},
	}
	s.defs["VersionError"] = rpc(map[string]any{"error": failure}, "error")
	s.defs["A2AReply"] = map[string]any{
		"description": "an answer of JSON-RPC: result, as A2A has it, or error",
		"anyOf": []any{
			rpc(map[string]any{"result": map[string]any{"type": "object"}}, "result"),
			rpc(map[string]any{"error": failure}, "error"),
		},
	}
	s.of(A2AError{})
}

var inPath = regexp.MustCompile(`\{(\w+)\}`)

func (s *schemas) operation(o Operation) (*operation, error) {
	out := &operation{ID: o.ID, Tags: []string{o.Tag}, Summary: o.Title, About: o.About, Responses: map[string]any{}}
	switch {
	case o.Open:
		out.Security = &[]map[string][]string{}
	case o.Path == "/init":
		out.Security = &[]map[string][]string{{"bootstrap": {}}}
	}
	for _, m := range inPath.FindAllStringSubmatch(o.Path, -1) {
		out.Params = append(out.Params, parameter{Name: m[1], In: "path", Required: true, Schema: text(), Example: exampleOf(o.Path, m[1])})
	}
	for _, p := range o.Params {
		out.Params = append(out.Params, parameter{Name: p.Name, In: p.In, About: p.About, Schema: p.Schema, Example: p.Example})
	}
	if o.Body != nil {
		examples := map[string]any{}
		for _, e := range o.Body.Examples {
			if !json.Valid([]byte(e.Value)) {
				return nil, fmt.Errorf("openapi: the example %s of %s is not JSON", e.Name, o.ID)
			}
			examples[e.Name] = map[string]any{"summary": e.Title, "value": json.RawMessage(e.Value)}
		}
		out.Body = &requestBody{!o.Body.Optional, jsonOf(s.of(o.Body.Type), examples)}
	}
	if err := s.answers(o, out.Responses); err != nil {
		return nil, err
	}
	byStatus := map[int][]Fault{}
	for _, f := range o.Faults {
		byStatus[f.Status] = append(byStatus[f.Status], f)
	}
	for _, status := range slices.Sorted(maps.Keys(byStatus)) {
		faults, name := byStatus[status], strconv.Itoa(status)
		if status == 0 {
			name = "default"
		}
		if out.Responses[name] != nil {
			return nil, fmt.Errorf("openapi: %s is an answer and a fault of %s", name, o.ID)
		}
		out.Responses[name] = s.share(status, s.faulty(faults))
	}
	for _, f := range Beforehand() {
		out.Responses[strconv.Itoa(f.Status)] = map[string]any{"$ref": fmt.Sprintf("#/components/responses/HTTP%d", f.Status)}
	}
	return out, nil
}

// early is the answer of a fault that HTTP finds.
func early(f Fault) map[string]any {
	out := map[string]any{"description": f.When}
	if f.Text {
		out["content"] = map[string]any{"text/plain": map[string]any{"schema": text()}}
	}
	return out
}

// exampleOf is an id as it may stand in a path.
func exampleOf(path, name string) string {
	switch {
	case name == "id" && strings.HasPrefix(path, "/conversations"):
		return "01JZ0000000000000000000000"
	case name == "id":
		return "example-0001"
	case name == "tenant":
		return "simulate"
	case name == "name":
		return "cook"
	case name == "profile":
		return "goroutine"
	case name == "sha256":
		return strings.Repeat("0", 64)
	}
	return name + "-01"
}

func (s *schemas) answers(o Operation, out map[string]any) error {
	for _, a := range o.Answers {
		name := strconv.Itoa(a.Status)
		at, _ := out[name].(map[string]any)
		if at == nil {
			at = map[string]any{"description": a.About}
			out[name] = at
		} else {
			at["description"] = at["description"].(string) + "; " + a.About
		}
		if len(a.Headers) > 0 {
			headers := map[string]any{}
			for h, what := range a.Headers {
				headers[h] = map[string]any{"description": what, "schema": text()}
			}
			at["headers"] = headers
		}
		made := s.content(a)
		if made == nil {
			continue
		}
		if a.Example != "" && a.Media == "" {
			if !json.Valid([]byte(a.Example)) {
				return fmt.Errorf("openapi: the example of the answer of %s is not JSON", o.ID)
			}
			made["example"] = json.RawMessage(a.Example)
		}
		media := a.Media
		if media == "" {
			media = "application/json"
		}
		content, _ := at["content"].(map[string]any)
		if content == nil {
			content = map[string]any{}
			at["content"] = content
		}
		content[media] = made
		if strings.HasPrefix(o.Path, "/a2a") && media == "application/json" && strings.Contains(o.Path, "/t") {
			content["application/a2a+json"] = made // where Accept names it
		}
	}
	return nil
}

// content is the body of an answer; nil: it has none.
func (s *schemas) content(a Answer) map[string]any {
	switch {
	case a.Events:
		return map[string]any{
			"schema":  map[string]any{"type": "string", "contentMediaType": "text/event-stream", "description": "frames whose data are an Event each, see x-event-schema"},
			"example": a.Example, "x-event-schema": ref("Event"),
		}
	case a.Media == "text/event-stream":
		return map[string]any{"schema": map[string]any{"type": "string", "contentMediaType": a.Media}}
	case a.Type == nil:
		return nil
	}
	return map[string]any{"schema": s.of(a.Type)}
}

// share makes a component of an answer, since most are those of many operations.
func (s *schemas) share(status int, answer map[string]any) map[string]any {
	if answer["$ref"] != nil {
		return answer
	}
	for n := 1; ; n++ {
		name := fmt.Sprintf("Error%d", status)
		if n > 1 {
			name += fmt.Sprintf("_%d", n)
		}
		if s.shared[name] == nil {
			s.shared[name] = answer
		}
		if reflect.DeepEqual(s.shared[name], answer) {
			return map[string]any{"$ref": "#/components/responses/" + name}
		}
	}
}

// faulty is the answer of the faults of one status.
func (s *schemas) faulty(faults []Fault) map[string]any {
	if faults[0].Response != "" {
		return map[string]any{"$ref": "#/components/responses/" + faults[0].Response}
	}
	s.of(api.Error{})
	when, shapes, plain := meaning(faults)
	schema := shapes[0]
	if len(shapes) > 1 {
		schema = map[string]any{"anyOf": shapes}
	}
	content := jsonOf(schema, nil)
	if plain {
		content["text/plain"] = map[string]any{"schema": text()}
	}
	out := map[string]any{"description": strings.Join(when, "\n"), "content": content}
	switch faults[0].Status {
	case http.StatusUnauthorized:
		out["headers"] = map[string]any{"WWW-Authenticate": map[string]any{"schema": text()}}
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		if slices.ContainsFunc(faults, func(f Fault) bool { return f.Type == "rate_limit" || f.Type == "busy" }) {
			out["headers"] = map[string]any{"Retry-After": map[string]any{"description": "seconds", "schema": number(1, 0)}}
		}
	}
	return out
}

// meaning is when faults of one status happen, the schemas of their bodies,
// and whether one is a text.
func meaning(faults []Fault) (when []string, shapes []any, plain bool) {
	var types, bodies []any
	anyType := false
	for _, f := range faults {
		line := f.When
		switch {
		case f.Text:
			plain = true
		case f.Type == "":
			anyType = true
		case f.Type != "-":
			line = f.Type + ": " + line
			if f.Body == "" && !slices.Contains(types, any(f.Type)) {
				types = append(types, f.Type)
			}
		}
		if !slices.Contains(when, line) {
			when = append(when, line)
		}
		if f.Body != "" && !slices.Contains(bodies, any(f.Body)) {
			bodies = append(bodies, f.Body)
		}
	}
	switch {
	case anyType:
		shapes = append(shapes, ref("Error"))
	case len(types) > 0:
		shapes = append(shapes, map[string]any{"allOf": []any{
			ref("Error"),
			map[string]any{"properties": map[string]any{"error_type": map[string]any{"enum": types}}},
		}})
	}
	for _, b := range bodies {
		shapes = append(shapes, ref(b.(string)))
	}
	return when, shapes, plain
}

func jsonOf(schema any, examples map[string]any) map[string]any {
	of := map[string]any{"schema": schema}
	if len(examples) > 0 {
		of["examples"] = examples
	}
	return map[string]any{"application/json": of}
}
