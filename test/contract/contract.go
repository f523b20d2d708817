// Package contract looks that what a server answers is what the published
// OpenAPI document says: the status, the content type, the body, and each
// event of a stream. Tests that call a server do it through Transport; programs
// that they start are listened to.
package contract

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"innerd/adapter/published"
)

// document is the part of the document that answers are compared with.
type document struct {
	Paths      map[string]map[string]operation `json:"paths"`
	Components struct {
		Schemas   map[string]json.RawMessage `json:"schemas"`
		Responses map[string]response        `json:"responses"`
	} `json:"components"`
}

type operation struct {
	ID        string              `json:"operationId"`
	Responses map[string]response `json:"responses"`
}

type response struct {
	Ref     string           `json:"$ref"`
	Content map[string]media `json:"content"`

	at string // where it stands
}

type media struct {
	Schema json.RawMessage `json:"schema"`
	Events json.RawMessage `json:"x-event-schema"`
}

// place is one path of the document.
type place struct {
	path       string
	pattern    *regexp.Regexp
	literal    int // characters that are no parameter: more is nearer
	operations map[string]operation
}

// rules are the document, ready to be compared with. They do not change.
type rules struct {
	places    []place
	responses map[string]response
	schemas   map[string]*jsonschema.Schema // by place in the document
	events    map[string]*jsonschema.Schema // by type
}

// load reads the document once.
var load = sync.OnceValues(func() (*rules, error) { return read(published.OpenAPI.Body) })

var parameter = regexp.MustCompile(`\{\w+\}`)

// dots leads elsewhere, and is the value of no parameter.
var dots = regexp.MustCompile(`/\.\.?(/|$)`)

func read(text string) (*rules, error) {
	var doc document
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		return nil, fmt.Errorf("contract: %w", err)
	}
	whole, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("contract: %w", err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("openapi.json", whole); err != nil {
		return nil, fmt.Errorf("contract: %w", err)
	}
	r := &rules{responses: map[string]response{}, schemas: map[string]*jsonschema.Schema{}, events: map[string]*jsonschema.Schema{}}
	for name, resp := range doc.Components.Responses {
		resp.at = "/components/responses/" + name
		r.responses["#"+resp.at] = resp
		if err := r.compile(compiler, resp); err != nil {
			return nil, err
		}
	}
	for path, operations := range doc.Paths {
		for method, o := range operations {
			for status, resp := range o.Responses {
				resp.at = "/paths/" + strings.ReplaceAll(path, "/", "~1") + "/" + method + "/responses/" + status
				o.Responses[status] = resp
				if err := r.compile(compiler, resp); err != nil {
					return nil, err
				}
			}
		}
		literals := parameter.Split(path, -1)
		for i, l := range literals {
			literals[i] = regexp.QuoteMeta(l)
		}
		pattern := strings.Join(literals, `[^/]+`)
		if strings.HasSuffix(path, "/agents/{name}") {
			pattern = "/agents/.+"
		}
		r.places = append(r.places, place{
			path, regexp.MustCompile("^" + pattern + "$"), len(parameter.ReplaceAllString(path, "")), operations,
		})
	}
	slices.SortFunc(r.places, func(a, b place) int { return b.literal - a.literal })
	return r, r.compileEvents(compiler, doc)
}

func (r *rules) compile(c *jsonschema.Compiler, resp response) error {
	for name, m := range resp.Content {
		if len(m.Schema) == 0 || !strings.HasSuffix(name, "json") {
			continue
		}
		at := resp.at + "/content/" + strings.ReplaceAll(name, "/", "~1") + "/schema"
		s, err := c.Compile("openapi.json#" + (&url.URL{Path: at}).EscapedPath())
		if err != nil {
			return fmt.Errorf("contract: %s: %w", at, err)
		}
		r.schemas[at] = s
	}
	return nil
}

// compileEvents makes a schema for each type: one for all would try every type
// for every event.
func (r *rules) compileEvents(c *jsonschema.Compiler, doc document) error {
	for name, raw := range doc.Components.Schemas {
		var s struct {
			Properties struct {
				Type struct {
					Const string `json:"const"`
				} `json:"type"`
			} `json:"properties"`
		}
		if !strings.HasSuffix(name, "Event") || json.Unmarshal(raw, &s) != nil || s.Properties.Type.Const == "" {
			continue
		}
		made, err := c.Compile("openapi.json#/components/schemas/" + name)
		if err != nil {
			return fmt.Errorf("contract: %w", err)
		}
		r.events[s.Properties.Type.Const] = made
	}
	if len(r.events) == 0 {
		return fmt.Errorf("contract: the document has no events")
	}
	return nil
}

// find is the operation of a request; without one, what any path may answer.
func (r *rules) find(method, path string) (op operation, found bool) {
	path = "/" + strings.Trim(path, "/")
	known := false
	if dots.MatchString(path) {
		return operation{ID: "no operation", Responses: anywhere(known, path)}, false
	}
	for _, p := range r.places {
		if !p.pattern.MatchString(path) {
			continue
		}
		if op, found = p.operations[strings.ToLower(method)]; found && method == strings.ToUpper(method) {
			return op, true // pOST is another method than POST
		}
		known = true
	}
	return operation{ID: "no operation", Responses: anywhere(known, path)}, false
}

// anywhere is what requests that are none of the operations are answered.
func anywhere(known bool, path string) map[string]response {
	out := map[string]response{}
	for _, status := range []string{"400", "401", "403", "404", "405", "413"} {
		if status != "405" || known || strings.HasPrefix(path, "/agents") {
			out[status] = response{Ref: "-"} // its body is looked at less closely
		}
	}
	return out
}

// answer finds what the document says of a status and a content type.
func (r *rules) answer(op operation, status int, contentType string) (schema *jsonschema.Schema, events bool, err error) {
	resp, ok := op.Responses[strconv.Itoa(status)]
	if !ok {
		resp, ok = op.Responses["default"]
	}
	if !ok {
		return nil, false, fmt.Errorf("status %d is none that %s can have", status, op.ID)
	}
	if resp.Ref == "-" {
		return nil, false, nil
	}
	if resp.Ref != "" {
		resp = r.responses[resp.Ref]
	}
	name, _, err := mime.ParseMediaType(contentType)
	switch {
	case len(resp.Content) == 0 && contentType == "":
		return nil, false, nil
	case len(resp.Content) == 0:
		return nil, false, fmt.Errorf("status %d of %s has no body, and the Content-Type %q", status, op.ID, contentType)
	case err != nil:
		return nil, false, fmt.Errorf("status %d of %s: Content-Type %q: %w", status, op.ID, contentType, err)
	}
	m, ok := resp.Content[name]
	if !ok {
		return nil, false, fmt.Errorf("status %d of %s: the Content-Type %q is none that it can have", status, op.ID, contentType)
	}
	if len(m.Events) == 0 && !strings.HasSuffix(name, "json") {
		return nil, false, nil // bytes
	}
	return r.schemas[resp.at+"/content/"+strings.ReplaceAll(name, "/", "~1")+"/schema"], len(m.Events) > 0, nil
}

// isHead reports whether an answer has no body, whatever it says.
func isHead(method string, status int) bool {
	return method == http.MethodHead || status == http.StatusNoContent || status == http.StatusNotModified
}
