package adapter_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"innerd/adapter"
	"innerd/adapter/api"
	"innerd/backends"
	"innerd/events/journal"
	"innerd/runs"
)

func TestOpenEndpoints(t *testing.T) {
	s := serve(t, func(o *adapter.Options) { o.Open, o.Keys = false, adapter.ParseKeys("a:s1") })
	code, body := s.call(t, "GET", "/health", "")
	var h api.Health
	if err := json.Unmarshal([]byte(body), &h); err != nil || code != 200 || h.Status != "ok" || h.Version != "test" || !h.Backends["fake"].Usable {
		t.Errorf("health: %d %s", code, body)
	}
	if code, body := s.call(t, "GET", "/ready", ""); code != 200 || !strings.Contains(body, `"ready":true`) {
		t.Errorf("ready: %d %s", code, body)
	}
	code, body = s.call(t, "GET", "/.well-known/agent-card.json", "")
	var card map[string]any
	if err := json.Unmarshal([]byte(body), &card); err != nil || code != 200 {
		t.Fatalf("card: %d %s", code, body)
	}
	for _, field := range []string{"name", "description", "version", "supportedInterfaces", "capabilities", "defaultInputModes", "defaultOutputModes", "skills", "securitySchemes"} {
		if card[field] == nil {
			t.Errorf("card without %s", field)
		}
	}
	if res := s.do(t, "HEAD", "/health", ""); res.StatusCode != 200 {
		t.Errorf("HEAD /health: %d", res.StatusCode)
	}
	if res := s.do(t, "OPTIONS", "/message:stream", ""); res.StatusCode != 204 || res.Header.Get("A2A-Version") != api.Version {
		t.Errorf("OPTIONS: %d", res.StatusCode)
	}
	s.fails(t, "GET", "/.well-known/other", "", 404, "not_found", "no such endpoint")
}

func TestReadyReasons(t *testing.T) {
	s := serve(t, func(o *adapter.Options) { o.Ready = func() []string { return []string{"recovery"} } })
	if code, body := s.call(t, "GET", "/ready", ""); code != 503 || body != `{"ready":false,"reasons":["recovery"]}` {
		t.Errorf("ready: %d %s", code, body)
	}
}

// Health answers before there is a domain, and other calls wait for it.
func TestStarting(t *testing.T) {
	s := serve(t, func(o *adapter.Options) { o.Runs, o.StartWait = nil, 20*time.Millisecond })
	if code, body := s.call(t, "GET", "/health", ""); code != 200 || !strings.Contains(body, `"backends":{}`) {
		t.Errorf("health: %d %s", code, body)
	}
	if code, body := s.call(t, "GET", "/ready", ""); code != 503 || !strings.Contains(body, "starting") {
		t.Errorf("ready: %d %s", code, body)
	}
	for path, want := range map[string]int{ // 503 costs hosts in the field five minutes, where runs are made
		"POST /message:stream": 500, "POST /message:send": 500, "POST /tools/t/result": 500, "POST /tasks/t:cancel": 500,
		"GET /tasks/t/events": 500, "GET /tasks/t": 503, "GET /tasks": 503, "GET /backends": 503, "POST /conversations/c:close": 503,
	} {
		method, path, _ := strings.Cut(path, " ")
		errorType, words := "internal", "starting"
		if want == 503 {
			errorType, words = "busy", "ask again"
		}
		s.fails(t, method, path, "{}", want, errorType, words)
		if got := s.do(t, method, path, "{}").Header.Get("Retry-After"); got != "5" {
			t.Errorf("%s %s: Retry-After %q", method, path, got)
		}
	}

	late := serve(t, func(o *adapter.Options) { o.Runs = nil })
	got := make(chan int, 1)
	go func() {
		res, err := late.Client().Do(late.request(t, "GET", "/tasks", ""))
		if err != nil {
			got <- 0
			return
		}
		_ = res.Body.Close()
		got <- res.StatusCode
	}()
	late.adapter.Use(late.fake)
	late.adapter.Use(nil) // only the first counts
	if code := <-got; code != 200 {
		t.Errorf("a call before Use: %d", code)
	}
}

func TestNewRefusesDangerousOptions(t *testing.T) {
	if _, err := adapter.New(adapter.Options{}); err == nil {
		t.Error("neither keys nor open")
	}
	if _, err := adapter.New(adapter.Options{Open: true, Keys: adapter.ParseKeys("a")}); err == nil {
		t.Error("keys and open")
	}
}

func TestUnknownRoutes(t *testing.T) {
	s := serve(t, nil)
	s.fails(t, "GET", "/nothing", "", 404, "not_found", "")
	s.fails(t, "GET", "/", "", 404, "not_found", "")
	s.fails(t, "POST", "/message:other", "{}", 404, "not_found", "")
	s.fails(t, "GET", "/message:stream", "", 405, "unsupported", "")
	s.fails(t, "PUT", "/tasks/x", "", 405, "unsupported", "")
	s.fails(t, "POST", "/tasks/x", "", 405, "unsupported", "")
	s.fails(t, "POST", "/tasks/x:dance", "", 404, "not_found", "")
	s.fails(t, "POST", "/conversations/x:dance", "", 404, "not_found", "")
	s.fails(t, "POST", "/health", "", 405, "unsupported", "")
	s.fails(t, "GET", "/agents", "", 404, "not_found", "")
}

func TestTrailingSlashesAndNoRedirects(t *testing.T) {
	s := serve(t, nil)
	for _, path := range []string{"/health/", "/health//", "/tasks/", "/tasks/?page_size=3", "//health", "/backends/", "/.well-known/agent-card.json/"} {
		if code, body := s.call(t, "GET", path, ""); code != 200 {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	if q := s.fake.last().(runs.Query); q.PageSize != 3 {
		t.Errorf("the query is lost: %+v", q)
	}
	r := s.stream(t, "POST", "/message:stream/", "{}")
	(<-s.fake.started).end(t)
	r.finish()
	// The colon may come escaped.
	r = s.stream(t, "POST", "/message%3Astream", "{}")
	(<-s.fake.started).end(t)
	r.finish()
}

// A path that leads up is none, for every check alike: what is open without a
// key is no way to what is not.
func TestPathsThatLeadUp(t *testing.T) {
	s := serve(t, func(o *adapter.Options) { o.Open, o.Keys = false, []adapter.Key{adapter.NewKey("a", "secret")} })
	for _, path := range []string{"/.well-known/../tasks", "/.well-known/%2e%2e/tasks", "/.well-known/..%2ftasks", "/health/../tasks", "/.well-known/x/../../tasks", "/./tasks", "/tasks/.", "/..", "/.well-known/../message:send"} {
		for _, method := range []string{"GET", "POST"} {
			s.fails(t, method, path, "{}", 404, "not_found", "")
		}
	}
	s.fails(t, "GET", "//tasks", "", 401, "unauthorized", "")
	select {
	case <-s.fake.started:
		t.Error("a run was started without a key")
	default:
	}
}

func TestVersions(t *testing.T) {
	s := serve(t, nil)
	for _, v := range []string{"", "0.3", "0.3.0", "1.0", "1.0.0", " 1.0 "} {
		if code, body := s.call(t, "GET", "/tasks", "", "A2A-Version", v); code != 200 {
			t.Errorf("version %q: %d %s", v, code, body)
		}
	}
	code, body := s.call(t, "POST", "/message:stream", "{}", "A2A-Version", "2.0")
	var rpc struct {
		JSONRPC string `json:"jsonrpc"`
		Error   struct {
			Code    int
			Message string
			Data    struct{ Supported []string }
		}
	}
	if err := json.Unmarshal([]byte(body), &rpc); err != nil || code != 400 || rpc.JSONRPC != "2.0" || rpc.Error.Code != -32009 || len(rpc.Error.Data.Supported) != 4 || !strings.Contains(rpc.Error.Message, "0.3.0") {
		t.Errorf("version 2.0: %d %s", code, body)
	}
}

func TestKeys(t *testing.T) {
	keys := append(adapter.ParseKeys(" alice:s-a , plain-secret ,,bob:s:b"), adapter.ParseSecrets("x:y")...)
	s := serve(t, func(o *adapter.Options) { o.Open, o.Keys = false, keys })
	owner := func(header string) (int, string) {
		code, body := s.call(t, "GET", "/conversations", "", "Authorization", header)
		return code, body
	}
	for header, want := range map[string]string{
		"Bearer s-a":          "alice",
		"bearer  s-a ":        "alice",
		"Bearer s:b":          "bob",
		"Bearer plain-secret": "k-",
		"Bearer x:y":          "k-",
	} {
		if code, body := owner(header); code != 200 || !strings.Contains(body, `"c `+want) {
			t.Errorf("%q: %d %s", header, code, body)
		}
	}
	for _, header := range []string{"", "Bearer", "Bearer ", "Bearer wrong", "Basic s-a", "s-a", "Bearer alice:s-a", "Bearer s-a,plain-secret"} {
		s.fails(t, "GET", "/conversations", "", 401, "unauthorized", "key", "Authorization", header)
	}
	// Everything but the open endpoints is behind the key.
	for _, c := range [][2]string{
		{"POST", "/message:stream"},
		{"POST", "/message:send"},
		{"GET", "/tasks"},
		{"GET", "/tasks/x"},
		{"GET", "/tasks/x/events"},
		{"POST", "/tasks/x:cancel"},
		{"POST", "/tools/x/result"},
		{"GET", "/backends"},
		{"GET", "/debug/streams"},
		{"GET", "/nothing"},
		{"GET", "/healthy"},
		{"GET", "/.well-known"},
	} {
		s.fails(t, c[0], c[1], "{}", 401, "unauthorized", "")
	}
	if res := s.do(t, "GET", "/tasks", ""); res.Header.Get("WWW-Authenticate") != "Bearer" {
		t.Error("no WWW-Authenticate")
	}
	two := s.request(t, "GET", "/tasks", "")
	two.Header["Authorization"] = []string{"Bearer s-a", "Bearer plain-secret"}
	if res, err := s.Client().Do(two); err != nil || res.StatusCode != http.StatusUnauthorized {
		t.Errorf("two keys: %v %v", res, err)
	} else {
		_ = res.Body.Close()
	}
	if k := adapter.NewKey("", "secret"); len(k.Owner) != 2+12 || strings.Contains(fmt.Sprint(k), "secret") {
		t.Errorf("%v %s", k, k.Owner)
	}
}

func TestOpenServerHasOneOwner(t *testing.T) {
	s := serve(t, nil)
	if code, body := s.call(t, "GET", "/conversations", "", "Authorization", "Bearer whatever"); code != 200 || !strings.Contains(body, "c default") {
		t.Errorf("%d %s", code, body)
	}
}

func TestHostNames(t *testing.T) {
	s := serve(t, func(o *adapter.Options) { o.Hosts = []string{"Box.internal"} })
	for _, host := range []string{"localhost", "LOCALHOST:18100", "127.0.0.1:1", "[::1]:18100", "host.docker.internal:18100", "box.internal", "localhost.", "192.168.1.7:18100"} {
		if code, body := s.call(t, "GET", "/tasks", "", "Host", host); code != 200 {
			t.Errorf("%s: %d %s", host, code, body)
		}
	}
	for _, host := range []string{"evil.example", "evil.example:18100", "localhost.evil.example", "127.0.0.1.evil.example"} {
		s.fails(t, "POST", "/message:stream", "{}", 403, "unauthorized", "name", "Host", host)
		if code, _ := s.call(t, "GET", "/health", "", "Host", host); code != 200 {
			t.Errorf("a probe as %s: %d", host, code)
		}
	}
	anyHost := serve(t, func(o *adapter.Options) { o.Hosts = []string{"*"} })
	if code, _ := anyHost.call(t, "GET", "/tasks", "", "Host", "evil.example"); code != 200 {
		t.Errorf("any host: %d", code)
	}
}

// Names of containers come in on other addresses, and pass.
func TestHostNamesOffLoopback(t *testing.T) {
	s := serve(t, nil)
	for _, local := range []string{"172.17.0.2", "10.1.2.3", "fd00::1"} {
		w := newRecorder()
		r := s.request(t, "GET", "/tasks", "", "Host", "sandbox-7:18100")
		r = r.WithContext(withLocalAddr(r.Context(), local))
		s.adapter.Handler().ServeHTTP(w, r)
		if w.Code != 200 {
			t.Errorf("%s: %d %s", local, w.Code, w.Body)
		}
	}
}

func TestPagesOfOtherSites(t *testing.T) {
	s := serve(t, nil)
	s.fails(t, "POST", "/message:stream", "{}", 403, "unauthorized", "another site", "Sec-Fetch-Site", "cross-site")
	s.fails(t, "POST", "/message:stream", "{}", 403, "unauthorized", "another site", "Origin", "https://evil.example")
	if code, _ := s.call(t, "POST", "/tasks/x:cancel", "{}", "Origin", s.URL); code != 404 {
		t.Errorf("its own page: %d", code)
	}
}

func TestErrorsOfStart(t *testing.T) {
	s := serve(t, nil)
	for _, c := range []struct {
		err       error
		status    int
		errorType string
	}{
		{&backends.FieldError{Field: "metadata.backend", Reason: "unknown"}, 400, "invalid_request"},
		{fmt.Errorf("x: %w", runs.ErrConflict), 409, "conflict"},
		{runs.ErrBusy, 409, "busy"},
		{runs.ErrDraining, 500, "shutdown"},
		{&runs.LimitedError{Backend: "b", RetryAfter: 2500 * time.Millisecond}, 503, "rate_limit"},
		{&journal.StorageError{Err: io.ErrShortWrite}, 500, "internal"},
	} {
		s.fake.mu.Lock()
		s.fake.startErr = c.err
		s.fake.mu.Unlock()
		for _, path := range []string{"/message:stream", "/message:send"} {
			s.fails(t, "POST", path, "{}", c.status, c.errorType, "")
		}
	}
	s.fake.startErr = &runs.LimitedError{RetryAfter: 2500 * time.Millisecond}
	if got := s.do(t, "POST", "/message:send", "{}").Header.Get("Retry-After"); got != "3" {
		t.Errorf("Retry-After %q", got)
	}
}

func TestPanicIsOneRequest(t *testing.T) {
	s := serve(t, nil)
	s.fake.onStart = func() { panic("boom") }
	s.fails(t, "POST", "/message:stream", "{}", 500, "internal", "fault")
	s.fake.onStart = nil
	s.fails(t, "GET", "/tasks/none", "", 404, "not_found", "")
}

func TestBadBodies(t *testing.T) {
	s := serve(t, func(o *adapter.Options) { o.BodyLimit = 1000 })
	for _, path := range []string{"/message:stream", "/message:send", "/tools/x/result", "/tasks/x:cancel", "/tasks/x:reply", "/tasks/x/requests/y"} {
		s.fails(t, "POST", path, "{", 400, "invalid_request", "not JSON")
		s.fails(t, "POST", path, "[]", 400, "invalid_request", "body: must be an object")
		s.fails(t, "POST", path, strings.Repeat(" ", 1001), 413, "too_large", "1000")
		// Without a length.
		req := s.request(t, "POST", path, "")
		req.Body, req.ContentLength = io.NopCloser(strings.NewReader(strings.Repeat("x", 100_000))), -1
		res, err := s.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		data, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode != 413 || !strings.Contains(string(data), "too_large") {
			t.Errorf("%s without a length: %d %s", path, res.StatusCode, data)
		}
	}
	s.fails(t, "POST", "/message:stream", "", 400, "invalid_request", "empty")
	s.fails(t, "POST", "/message:stream", `{"metadata":{"task_id":"../x"}}`, 400, "invalid_request", "metadata.task_id")
	s.fails(t, "POST", "/message:stream", `{"messages":[7]}`, 400, "invalid_request", "messages[0]")
	if len(s.fake.specs) != 0 {
		t.Error("a bad body started something")
	}
	body := `{"context_id":"` + strings.Repeat("x", 512) + `"}`
	r := s.stream(t, "POST", "/message:stream", body)
	(<-s.fake.started).end(t)
	r.finish()
}

// A body that comes slowly, but comes, is taken, however long it takes.
func TestBodyInSmallPieces(t *testing.T) {
	const progress = 2 * time.Second // a busy machine may be still for a good part of it
	s := serve(t, func(o *adapter.Options) { o.ReadProgress = progress })
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const body = `{"context_id":5}`
	_, _ = fmt.Fprintf(conn, "POST /message:stream HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", len(body))
	for _, c := range []byte(body) { // longer than that in all
		time.Sleep(progress / 12)
		if _, err := conn.Write([]byte{c}); err != nil {
			t.Fatal(err)
		}
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusBadRequest {
		t.Errorf("%d", res.StatusCode)
	}
}

// A body of which nothing comes any more is given up.
func TestSlowBody(t *testing.T) {
	s := serve(t, func(o *adapter.Options) { o.ReadProgress = 30 * time.Millisecond })
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "POST /message:stream HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusRequestTimeout {
		t.Errorf("%d", res.StatusCode)
	}
}
