package registry_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"innerd/adapter/netguard"
	"innerd/adapter/registry"
)

// files is a store in memory.
type files struct {
	mu   sync.Mutex
	data map[string][]byte
}

func (f *files) WriteFile(rel string, data []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.data[rel] = data
	return nil
}

func (f *files) ReadFile(rel string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if data, ok := f.data[rel]; ok {
		return data, nil
	}
	return nil, fs.ErrNotExist
}

type ownerKey struct{}

// caller calls a registry as an owner.
type caller struct {
	t     *testing.T
	h     http.Handler
	owner string
}

func newCaller(t *testing.T, store registry.Store, allow ...string) *caller {
	r := registry.New(registry.Options{Guard: netguard.New(allow, "--discover-allow")})
	if store != nil {
		r.Use(store)
	}
	return &caller{t, r.Handler(func(ctx context.Context) string { owner, _ := ctx.Value(ownerKey{}).(string); return owner }), "me"}
}

func (c *caller) do(method, path, body string) (int, map[string]any) {
	c.t.Helper()
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	w := httptest.NewRecorder()
	c.h.ServeHTTP(w, req.WithContext(context.WithValue(req.Context(), ownerKey{}, c.owner)))
	var v map[string]any
	if raw, _ := io.ReadAll(w.Body); len(raw) > 0 {
		if err := json.Unmarshal(raw, &v); err != nil {
			c.t.Fatalf("%s %s: %s: %v", method, path, raw, err)
		}
	}
	return w.Code, v
}

func (c *caller) want(status int, method, path, body string) map[string]any {
	c.t.Helper()
	got, v := c.do(method, path, body)
	if got != status {
		c.t.Errorf("%s %s %s: %d, want %d: %v", method, path, body, got, status, v)
	}
	return v
}

func names(v map[string]any) (out []string) {
	for _, a := range v["agents"].([]any) {
		out = append(out, a.(map[string]any)["name"].(string))
	}
	return out
}

func TestRegisterListRemove(t *testing.T) {
	store := &files{data: map[string][]byte{}}
	c := newCaller(t, store)
	if got := names(c.want(200, "GET", "/agents", "")); len(got) != 0 {
		t.Errorf("%v", got)
	}
	for _, bad := range []string{`{}`, `{"name":"a"}`, `{"url":"http://x"}`, `{"name":"a","url":"ftp://x"}`, `{"name":"a","url":"nonsense"}`, `{"name":7,"url":"http://x"}`, `[]`} {
		c.want(422, "POST", "/agents:register", bad)
	}
	c.want(400, "POST", "/agents:register", `{`)
	c.want(200, "POST", "/agents:register", `{"name":"b","url":"http://b.example","extra":{"kept":1}}`)
	c.want(200, "POST", "/agents:register", `{"name":"a","url":"http://a.example"}`)
	c.want(200, "POST", "/agents:register", `{"name":"a","url":"http://a2.example"}`)
	list := c.want(200, "GET", "/agents", "")
	if got := names(list); fmt.Sprint(got) != "[a b]" {
		t.Errorf("%v", got)
	}
	if b := list["agents"].([]any)[1].(map[string]any); b["extra"] == nil {
		t.Errorf("the card lost what it had: %v", b)
	}
	other := *c
	other.owner = "you"
	if got := names(other.want(200, "GET", "/agents", "")); len(got) != 0 {
		t.Errorf("another owner sees %v", got)
	}
	other.want(404, "DELETE", "/agents/a", "")
	if got := names(newCaller(t, store).want(200, "GET", "/agents", "")); fmt.Sprint(got) != "[a b]" {
		t.Errorf("after a restart: %v", got)
	}
	c.want(204, "DELETE", "/agents/a", "")
	c.want(404, "DELETE", "/agents/a", "")
	c.want(405, "PUT", "/agents", "")
	c.want(405, "GET", "/agents:register", "")
}

func TestRoute(t *testing.T) {
	c := newCaller(t, nil)
	c.want(503, "POST", "/agents:route", `{"prompt":"x"}`)
	c.want(200, "POST", "/agents:register", `{"name":"sql","url":"http://s","description":"writes database queries","skills":[{"id":"q","name":"Query","tags":["sql","database"]}]}`)
	if got := c.want(200, "POST", "/agents:route", `{"prompt":"draw a cat"}`); got["name"] != "sql" {
		t.Errorf("a single one: %v", got)
	}
	c.want(200, "POST", "/agents:register", `{"name":"art","url":"http://a","description":"draws pictures of animals","skills":[{"id":"d","name":"Draw","tags":["image","database"]}]}`)
	for _, row := range []struct{ body, want string }{
		{`{"prompt":"anything","hint_tags":["SQL"]}`, "sql"},
		{`{"prompt":"queries","hint_tags":["image","database"]}`, "art"},
		{`{"prompt":"Pictures of animals, please"}`, "art"},
		{`{"prompt":"some queries"}`, "sql"},
	} {
		if got := c.want(200, "POST", "/agents:route", row.body); got["name"] != row.want {
			t.Errorf("%s: %v", row.body, got["name"])
		}
	}
}

func TestDiscover(t *testing.T) {
	mux := http.NewServeMux()
	card := func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"name":"found","supportedInterfaces":[{"url":"http://found.example/a2a"}]}`)
	}
	mux.HandleFunc("/new/.well-known/agent-card.json", card)
	mux.HandleFunc("/old/.well-known/agent.json", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"name":"old","url":"http://old.example"}`)
	})
	mux.HandleFunc("/direct.json", card)
	mux.HandleFunc("/moved.json", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/direct.json", http.StatusFound) })
	mux.HandleFunc("/loop.json", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop.json", http.StatusFound) })
	mux.HandleFunc("/away.json", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://10.0.0.1/card.json", http.StatusFound)
	})
	mux.HandleFunc("/scheme.json", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
	})
	mux.HandleFunc("/large.json", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `"`+strings.Repeat("x", 2<<20)+`"`) })
	mux.HandleFunc("/broken.json", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{`) })
	mux.HandleFunc("/nameless.json", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"url":"http://x"}`) })
	srv := httptest.NewServer(mux)
	defer srv.Close()
	body := func(path string) string { return `{"url":"` + srv.URL + path + `"}` }

	c := newCaller(t, nil, "127.0.0.1")
	if got := c.want(200, "POST", "/agents:discover", body("/new/")); got["name"] != "found" || got["url"] != "http://found.example/a2a" {
		t.Errorf("%v", got)
	}
	c.want(200, "POST", "/agents:discover", body("/old"))
	c.want(200, "POST", "/agents:discover", body("/direct.json"))
	c.want(200, "POST", "/agents:discover", body("/moved.json"))
	if got := names(c.want(200, "GET", "/agents", "")); fmt.Sprint(got) != "[found old]" {
		t.Errorf("%v", got)
	}
	for path, status := range map[string]int{
		"/none.json": 502, "/large.json": 502, "/broken.json": 502, "/nameless.json": 502, "/loop.json": 422, "/away.json": 422, "/scheme.json": 422,
	} {
		c.want(status, "POST", "/agents:discover", body(path))
	}
	for _, url := range []string{"http://10.0.0.1/", "http://169.254.169.254/latest/meta-data", "http://[::1]/", "ftp://example.com", "", "http://u:p@example.com/", "http://0x7f.1/"} {
		c.want(422, "POST", "/agents:discover", `{"url":"`+url+`"}`)
	}
	// Without the flag this machine is out of reach.
	v := newCaller(t, nil).want(422, "POST", "/agents:discover", body("/new"))
	if !strings.Contains(v["detail"].(string), "--discover-allow") {
		t.Errorf("the refusal does not say what to do: %v", v)
	}
}
