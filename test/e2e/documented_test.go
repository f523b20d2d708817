//go:build linux

package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"innerd/adapter/published"
	"innerd/events"
)

// documented is an operation of docs/openapi.json with its examples.
type documented struct {
	path, method string
	ID           string   `json:"operationId"`
	Tags         []string `json:"tags"`
	Parameters   []struct {
		Name    string
		In      string
		Example any
	}
	RequestBody *struct {
		Required bool
		Content  map[string]struct {
			Examples map[string]struct{ Value json.RawMessage }
		}
	}
}

// documentedOperations are all of them, in the order of their paths.
func documentedOperations(t *testing.T) (all []documented) {
	t.Helper()
	var doc struct {
		Paths map[string]map[string]documented
	}
	if err := json.Unmarshal([]byte(published.OpenAPI.Body), &doc); err != nil {
		t.Fatal(err)
	}
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(doc.Paths[path])) {
			o := doc.Paths[path][method]
			o.path, o.method = path, strings.ToUpper(method)
			all = append(all, o)
		}
	}
	return all
}

// bodies are the examples of the body by name; of an operation that reads
// none, or needs none, there is one without.
func (o documented) bodies() map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	if o.RequestBody != nil {
		for name, e := range o.RequestBody.Content["application/json"].Examples {
			out[name] = e.Value
		}
	}
	if o.RequestBody == nil || !o.RequestBody.Required {
		out[""] = nil
	}
	return out
}

// scene is what the server has made for an example.
type scene struct {
	path map[string]string // parts of the path instead of those of the document
	body json.RawMessage   // instead of the example; nil: as it is
	then func()            // when the head of the answer is there
}

// scenes makes what examples need.
type scenes struct {
	*server
	t *testing.T
	n int
}

// run starts a run of steps and reads it beside the test.
func (k *scenes) run(steps string, metadata map[string]any) *tape {
	k.n++
	return k.post(script(steps, metadata).in(fmt.Sprint("example-", k.n)), nil)
}

// over is the id of a run that has ended.
func (k *scenes) over() string {
	p := k.run(`[{"text":"Hello."}]`, nil)
	p.whole(k.t)
	return p.taskID()
}

// waiting is the id of a run that waits for long, and its cancel.
func (k *scenes) waiting() (id string, cancel func()) {
	p := k.run(`[{"text":"Hello."},{"repeat":60000,"steps":[{"sleep_ms":10}]}]`, map[string]any{"detach": true})
	p.until(k.t, events.TypeMessage)
	return p.taskID(), func() { k.Do(http.MethodPost, "/tasks/"+p.taskID()+":cancel", nil, nil) }
}

// asked is a run that waits for an answer.
func (k *scenes) asked(example string) (task, request string) {
	if example == "permission" || example == "denied" {
		p := k.run(`[{"permission":{"tool":"shell","input":{}}}]`, map[string]any{"permission_mode": "ask"})
		request = p.until(k.t, events.TypePermissionRequest).Data.(events.PermissionRequest).RequestID
		return p.taskID(), request
	}
	schema := ""
	if example == "question" {
		schema = `,"schema":{"type":"object","properties":{"answer":{"type":"string"}}}`
	}
	p := k.run(`[{"ask":{"message":"Which color?"`+schema+`}}]`, map[string]any{"interactive": true})
	request = p.until(k.t, events.TypeInputRequired).Data.(events.InputRequired).RequestID
	return p.taskID(), request
}

// push is a task with a push notification configuration.
func (k *scenes) push() map[string]string {
	id := k.over()
	k.Do(http.MethodPost, "/a2a/tasks/"+id+"/pushNotificationConfigs", `{"id":"c1","url":"http://127.0.0.1:9/hook"}`, nil)
	return map[string]string{"id": id, "configId": "c1"}
}

// make makes the scene of an operation's example.
func (k *scenes) make(o documented, example string) scene {
	id, _ := strings.CutPrefix(o.ID, "a2a03")
	for _, place := range []string{"OfTenant", "OfAgent", "BelowA2A"} {
		id = strings.TrimSuffix(id, place)
	}
	task := func(id string) scene { return scene{path: map[string]string{"id": id}} }
	switch id {
	case "getTask", "followTask", "deleteTask", "a2aGetTask", "a2aCreatePush", "a2aListPush", "GetTask":
		return task(k.over())
	case "cancelTask", "a2aCancel":
		id, _ := k.waiting()
		return task(id)
	case "steerTask", "a2aSubscribe", "a2aSubscribePost":
		id, cancel := k.waiting()
		return scene{path: map[string]string{"id": id}, then: cancel}
	case "a2aGetPush", "a2aDeletePush":
		return scene{path: k.push()}
	case "replyTask", "answerRequest":
		id, request := k.asked(example)
		return scene{path: map[string]string{"id": id, "request_id": request}}
	case "toolResult":
		p := k.run(`[{"call":{"tool":"lookup","arguments":{}}}]`, nil)
		return scene{path: map[string]string{"tool_call_id": p.until(k.t, events.TypeToolRequest).Data.(events.ToolRequest).ToolCallID}}
	case "getBlob":
		return k.blob()
	case "closeConversation", "compactConversation":
		k.over()
		conv, _ := k.Conversation(fmt.Sprint("example-", k.n))
		return task(conv.ID)
	case "discoverAgent":
		card := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"name":"other","url":"http://127.0.0.1:9/a2a"}`)
		}))
		k.t.Cleanup(card.Close)
		return scene{body: json.RawMessage(`{"url":"` + card.URL + `"}`)}
	case "routeAgent", "removeAgent":
		k.Do(http.MethodPost, "/agents:register", `{"name":"cook","url":"https://cook.example/a2a","tags":["food"]}`, nil)
	}
	return scene{}
}

// blob is a run with a value that was too long for its event.
func (k *scenes) blob() scene {
	p := k.run(`[{"tool":{"name":"shell","input":{},"output":"`+strings.Repeat("long ", 40_000)+`"}}]`, map[string]any{"events": "all"})
	p.whole(k.t)
	var cut struct{ Data struct{ SHA256 string } }
	if err := json.Unmarshal(p.until(k.t, events.TypeToolComplete).Raw, &cut.Data); err != nil || cut.Data.SHA256 == "" {
		k.t.Fatalf("no value was cut: %v %s", err, p)
	}
	return scene{path: map[string]string{"id": p.taskID(), "sha256": cut.Data.SHA256}}
}

// send sends an example, whose answer must be a success. That it is as the
// document has it, the client looks.
func (k *scenes) send(o documented, example string, body json.RawMessage) {
	k.t.Helper()
	sc := k.make(o, example)
	path, query, header := o.path, url.Values{}, []string{}
	for _, p := range o.Parameters {
		v := fmt.Sprint(p.Example)
		if own, ok := sc.path[p.Name]; ok {
			v = own
		}
		switch {
		case p.In == "path":
			path = strings.Replace(path, "{"+p.Name+"}", url.PathEscape(v), 1)
		case p.Example == nil:
		case p.In == "query":
			query.Set(p.Name, v)
		default:
			header = append(header, p.Name, v)
		}
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	if sc.body != nil {
		body = sc.body
	}
	var sent any
	if body != nil {
		sent = []byte(body)
	}
	resp, err := k.stream(k.t.Context(), o.method, path, sent, header...)
	if err != nil {
		k.t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	if sc.then != nil {
		sc.then()
	}
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 300 {
		k.t.Errorf("%s %s: %s %v\n%.500s", o.method, path, resp.Status, err, answer)
	}
}

// TestExamplesOfTheDocument sends every example of docs/openapi.json, and a
// request to every operation that needs no body, to a server.
func TestExamplesOfTheDocument(t *testing.T) {
	s := serve(t, "--max-event", "64KiB", "--push-allow", "127.0.0.1", "--discover-allow", "127.0.0.1", "--pprof")
	bodies := map[string]map[string]json.RawMessage{}
	for _, o := range documentedOperations(t) {
		bodies[o.ID] = o.bodies()
	}
	sent := 0
	for _, o := range documentedOperations(t) {
		given := bodies[o.ID]
		if len(given) == 0 { // the examples stand where the operation does first
			given = bodies[strings.TrimSuffix(strings.TrimSuffix(o.ID, "OfTenant"), "OfAgent")]
		}
		switch {
		case o.ID == "init": // of a server that waits, see TestExampleOfInit
			continue
		case slices.Contains(o.Tags, "a2a-0.3") && !strings.Contains(o.ID, "Card") && !strings.Contains(o.ID, "GetTask") && !strings.Contains(o.ID, "ListTasks"):
			continue // its bodies are its own; the SDK's client sends them in test/a2a
		case len(given) == 0:
			t.Errorf("%s has no example", o.ID)
		}
		t.Run(o.ID, func(t *testing.T) {
			for _, name := range slices.Sorted(maps.Keys(given)) {
				k := &scenes{server: s.of(t), t: t, n: sent * 100}
				k.send(o, name, given[name])
				sent++
			}
		})
	}
	if sent < 60 {
		t.Errorf("only %d examples were sent", sent)
	}
}

// TestExampleOfInit sends the example of POST /init to a server that waits.
func TestExampleOfInit(t *testing.T) {
	s := newServer(t)
	s.Env = append(s.Env, "INNERD_INIT_KEY="+key)
	s.StartUntil("waiting for POST /init")
	for path, want := range map[string]int{"/health": 200, "/ready": 503, "/backends": 401} {
		if status, answer := s.Call(http.MethodGet, path, nil); status != want {
			t.Errorf("%s: %d %s", path, status, answer)
		}
	}
	if status, answer := s.Call(http.MethodPost, "/init", `{"keys":[]}`); status != http.StatusBadRequest {
		t.Errorf("no keys: %d %s", status, answer)
	}
	for _, o := range documentedOperations(t) {
		if o.ID != "init" {
			continue
		}
		for name, body := range o.bodies() {
			if status, answer := s.Call(o.method, o.path, []byte(body)); status != http.StatusOK {
				t.Errorf("%s: %d %s", name, status, answer)
			}
		}
	}
	if !s.Says(`"innerd is ready"`) {
		t.Fatalf("the server is not ready:\n%s", s.Log())
	}
	if status, answer := s.Call(http.MethodPost, "/init", `{"keys":["a:b"]}`); status != http.StatusConflict {
		t.Errorf("a second one: %d %s", status, answer)
	}
}
