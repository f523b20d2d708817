package a2a_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"innerd/adapter"
	"innerd/adapter/a2a/spec"
	"innerd/test/a2a/rig"
)

// whole is a task as it can be compared: texts joined, whatever their pieces.
func whole(t spec.Task) (out []string) {
	for _, a := range t.Artifacts {
		out = append(out, a.ArtifactID+": "+text(a))
	}
	return append(out, string(t.Status.State))
}

const busy = `[{"reasoning":"hm","chunk_bytes":1},{"tool":{"name":"bash","input":{},"output":"x","ms":2}},{"text":"the first answer","chunk_bytes":3,"delay_ms":2},
	{"retry":{"text":"said again","chunk_bytes":2,"delay_ms":1}},{"text":"the last answer","chunk_bytes":1,"delay_ms":2}]`

// From wherever a reader was cut it gets the rest, and has the same task as one
// that was never cut.
func TestResumeFromAnyEvent(t *testing.T) {
	s := start(t, rig.Options{})
	for _, ext := range []bool{false, true} {
		c := newClient(t, s).with(func(c *client) { c.ext = ext })
		all := c.open(http.MethodPost, "/message:stream", message("resume", "go", script(busy, nil))).all()
		want := whole(fold(spec.Task{}, all))
		id := all[0].Task.ID
		last := int64(0)
		for i, e := range all {
			if e.id == "" || i == len(all)-1 {
				continue
			}
			n, err := strconv.ParseInt(e.id, 10, 64)
			if err != nil || n < last {
				t.Fatalf("the ids go back: %s after %d", e.id, last)
			}
			last = n
			rest := c.with(func(c *client) { c.hdr = map[string]string{"Last-Event-ID": e.id} }).open(http.MethodGet, "/tasks/"+id+":subscribe", nil).all()
			for _, r := range rest {
				if r.Task != nil {
					t.Fatal("a task where the rest was asked for")
				}
			}
			if diff := cmp.Diff(want, whole(fold(fold(spec.Task{}, all[:i+1]), rest))); diff != "" {
				t.Fatalf("after event %d (id %s, ext %v): %s", i, e.id, ext, diff)
			}
		}
		c.with(func(c *client) { c.hdr = map[string]string{"Last-Event-ID": all[len(all)-1].id} }).refused("UNSUPPORTED_OPERATION", http.MethodGet, "/tasks/"+id+":subscribe", nil)
	}
}

// A reader that comes in the middle gets the task as it stands and goes on.
func TestSubscribeInTheMiddle(t *testing.T) {
	s := start(t, rig.Options{})
	c := newClient(t, s)
	steps := strings.TrimSuffix(busy, "]") + `,{"ask":{"message":"is everybody here?"}}]` // until then it is not over
	id := c.begin(message("middle", "go", script(steps, nil))).ID
	var wg sync.WaitGroup
	got := make([][]string, 6)
	for i := range got {
		st := c.open(http.MethodPost, "/tasks/"+id+":subscribe", nil)
		wg.Go(func() { got[i] = whole(fold(spec.Task{}, st.all())) }) // ends with the task
		time.Sleep(9 * time.Millisecond)                              // the next one comes somewhere in it
	}
	c.eventually(id, state(spec.StateInputRequired))
	c.send(message("answer", "yes", inTask(id)))
	wg.Wait()
	want := whole(*c.task(id))
	for i, g := range got {
		if !slices.Equal(g, want) {
			t.Errorf("reader %d: %q, want %q", i, g, want)
		}
	}
}

// A task that is too large for one event comes in several.
func TestSubscribeToALargeTask(t *testing.T) {
	s := start(t, rig.Options{Dir: t.TempDir()})
	c := newClient(t, s)
	task := c.send(message("large", "go", script(`[{"flood":{"deltas":3000,"bytes":1000}},{"ask":{"message":"go on?","schema":{"type":"string"}}}]`, nil)))
	st := c.open(http.MethodGet, "/tasks/"+task.ID+":subscribe", nil)
	c.send(message("answer", "yes", inTask(task.ID)))
	events := st.all()
	if events[0].Task == nil || len(events[0].Task.Artifacts) != 0 {
		t.Errorf("the first event is not the task alone")
	}
	if diff := cmp.Diff(whole(*c.task(task.ID)), whole(fold(spec.Task{}, events))); diff != "" {
		t.Error(diff[:min(len(diff), 500)])
	}
	for _, e := range events {
		if raw, err := json.Marshal(e.StreamResponse); err != nil || len(raw) > 4<<20 {
			t.Errorf("an event of %d bytes: %v", len(raw), err)
		}
	}
}

// After a crash no task is left at work; a reader that comes back gets its end.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	s, err := rig.Start(rig.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(t, s)
	works := c.begin(message("innerd-hold", "go"))
	waits := c.send(message("tck-input-required", "go"))
	c.eventually(works.ID, state(spec.StateWorking))
	done := c.send(message("tck-complete-task", "go"))
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	s = start(t, rig.Options{Dir: dir})
	c = newClient(t, s)
	for _, id := range []string{works.ID, waits.ID} {
		got := c.task(id)
		if got.Status.State != spec.StateFailed || got.Status.Message == nil || !strings.Contains(*got.Status.Message.Parts[0].Text, "restarted") {
			t.Errorf("%+v", got.Status)
		}
	}
	if diff := cmp.Diff(done, c.task(done.ID)); diff != "" {
		t.Errorf("an ended task changed: %s", diff)
	}
	list := do[spec.ListTasksResponse](c, http.MethodGet, "/tasks?status=TASK_STATE_WORKING", nil)
	if list.TotalSize != 0 {
		t.Errorf("left at work: %+v", list)
	}
	rest := c.with(func(c *client) { c.hdr = map[string]string{"Last-Event-ID": "2"} }).open(http.MethodGet, "/tasks/"+waits.ID+":subscribe", nil).all()
	if len(rest) == 0 || rest[len(rest)-1].StatusUpdate.Status.State != spec.StateFailed {
		t.Errorf("%s", show(rest))
	}
	// The context goes on, with an agent that is told what was before.
	next := c.send(message("tck-complete-task", "go", func(m *spec.Message) { m.ContextID = done.ContextID }))
	if next.Status.State != spec.StateCompleted || next.ContextID != done.ContextID {
		t.Errorf("%+v", next)
	}
}

// Whoever comes back to the next server, from whatever it saw before a crash,
// has the same texts in the end as the task has, each once.
func TestResumeOverACrash(t *testing.T) {
	dir := t.TempDir()
	s, err := rig.Start(rig.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	// Each message is an event at least, however much of it comes at once.
	const steps = `[{"text":"the first answer","chunk_bytes":3,"delay_ms":30},{"flood":{"deltas":200,"bytes":7}},{"tool":{"name":"bash","input":{},"output":"x","ms":2}},
		{"repeat":10,"steps":[{"text":"and one more","chunk_bytes":5}]},{"text":"then it hangs","chunk_bytes":1,"delay_ms":30},{"stall":true}]`
	seen := newClient(t, s).open(http.MethodPost, "/message:stream", message("crash", "go", script(steps, nil))).until(func(e event) bool {
		return e.ArtifactUpdate != nil && strings.HasSuffix(text(e.ArtifactUpdate.Artifact), "s")
	})
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	c := newClient(t, start(t, rig.Options{Dir: dir}))
	id := seen[0].Task.ID
	ended := whole(*c.task(id))
	if all := strings.Join(ended, " "); !strings.Contains(all, "the first answer") || !strings.Contains(all, "then it hangs") || !strings.Contains(all, string(spec.StateFailed)) {
		t.Errorf("the task is %q", all)
	}
	tried := 0
	for i, e := range seen {
		if e.id == "" {
			continue
		}
		tried++
		rest := c.with(func(c *client) { c.hdr = map[string]string{"Last-Event-ID": e.id} }).open(http.MethodGet, "/tasks/"+id+":subscribe", nil).all()
		if diff := cmp.Diff(ended, whole(fold(fold(spec.Task{}, seen[:i+1]), rest))); diff != "" {
			t.Fatalf("after event %d (id %s): %s", i, e.id, diff)
		}
	}
	if tried < 10 {
		t.Errorf("only %d places were tried", tried)
	}
}

// hook is a webhook that fails for a while.
type hook struct {
	*httptest.Server
	mu   sync.Mutex
	fail int
	got  []spec.StreamResponse
	more chan struct{}
}

func newHook(t *testing.T, fail int) *hook {
	h := &hook{fail: fail, more: make(chan struct{}, 10000)}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.fail > 0 {
			h.fail--
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		var v spec.StreamResponse
		if err := json.NewDecoder(r.Body).Decode(&v); err != nil {
			t.Error(err)
		}
		h.got = append(h.got, v)
		h.more <- struct{}{}
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *hook) until(t *testing.T, is func(spec.StreamResponse) bool) []spec.StreamResponse {
	t.Helper()
	late := time.After(soon)
	for {
		h.mu.Lock()
		got := slices.Clone(h.got)
		h.mu.Unlock()
		if slices.ContainsFunc(got, is) {
			return got
		}
		select {
		case <-h.more:
		case <-late:
			t.Fatalf("it did not come: %+v", got)
		}
	}
}

func ended(v spec.StreamResponse) bool {
	return v.StatusUpdate != nil && v.StatusUpdate.Status.State.Terminal()
}

func withPush(req *spec.SendMessageRequest, cfg spec.PushConfig) *spec.SendMessageRequest {
	req.Configuration = &spec.SendConfiguration{PushConfig: &cfg}
	return req
}

// A receiver that fails gets everything in order, later; the task does not wait
// for it: it is over while the receiver takes nothing.
func TestPushTriesAgain(t *testing.T) {
	s := start(t, rig.Options{Backoff: 20 * time.Millisecond})
	c := newClient(t, s)
	h := newHook(t, 1<<30)
	task := c.send(withPush(message("push", "go", script(busy, nil)), spec.PushConfig{URL: h.URL}))
	if task.Status.State != spec.StateCompleted {
		t.Errorf("%+v", task.Status)
	}
	h.mu.Lock()
	h.fail = 4
	h.mu.Unlock()
	got := h.until(t, ended)
	folded := spec.Task{}
	for _, v := range got {
		folded = fold(folded, []event{{StreamResponse: v}})
	}
	if diff := cmp.Diff(whole(*task), whole(folded)); diff != "" || got[0].Task == nil {
		t.Errorf("%s", diff)
	}
}

// What was not delivered when the server died is delivered by the next one.
func TestPushSurvivesARestart(t *testing.T) {
	dir := t.TempDir()
	s, err := rig.Start(rig.Options{Dir: dir, Backoff: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(t, s)
	h := newHook(t, 1<<30)
	task := c.send(withPush(message("tck-complete-task", "go"), spec.PushConfig{ID: "mine", URL: h.URL, Token: "tok"}))
	half := c.send(withPush(message("tck-input-required", "go"), spec.PushConfig{URL: h.URL}))
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	h.mu.Lock()
	h.fail = 0
	h.mu.Unlock()
	s = start(t, rig.Options{Dir: dir, Backoff: 10 * time.Millisecond})
	c = newClient(t, s)
	h.until(t, func(v spec.StreamResponse) bool { return ended(v) && v.StatusUpdate.TaskID == task.ID })
	got := h.until(t, func(v spec.StreamResponse) bool { return ended(v) && v.StatusUpdate.TaskID == half.ID })
	for _, v := range got {
		if v.StatusUpdate != nil && v.StatusUpdate.TaskID == half.ID && ended(v) && v.StatusUpdate.Status.State != spec.StateFailed {
			t.Errorf("%+v", v.StatusUpdate)
		}
	}
	cfg := do[spec.PushConfig](c, http.MethodGet, "/tasks/"+task.ID+"/pushNotificationConfigs/mine", nil)
	if cfg.URL != h.URL || cfg.Token != "tok" {
		t.Errorf("%+v", cfg)
	}
}

func TestPushGuard(t *testing.T) {
	s := start(t, rig.Options{PushAllow: []string{"nothing.example"}})
	c := newClient(t, s)
	for _, url := range []string{
		"http://127.0.0.1:1/x", "http://localhost/x", "http://[::1]/x", "http://10.1.2.3/", "http://169.254.169.254/latest", "http://0.0.0.0/",
		"http://[::ffff:192.168.0.1]/", "ftp://example.com/", "file:///etc/passwd", "http://user:pw@example.com/", "http:///x", "nonsense", "http://2130706433/",
	} {
		c.refused("INVALID_PARAMS", http.MethodPost, "/message:send", withPush(message("x", "go"), spec.PushConfig{URL: url}))
	}
	for _, token := range []string{"a\nb", "a\r\nX: y"} {
		c.refused("INVALID_PARAMS", http.MethodPost, "/message:send", withPush(message("x", "go"), spec.PushConfig{URL: "https://example.com/", Token: token}))
	}
	if list := do[spec.ListTasksResponse](c, http.MethodGet, "/tasks", nil); list.TotalSize != 0 {
		t.Errorf("a refused configuration made a task: %+v", list)
	}
}

// A redirect is no way around the guard, and no delivery.
func TestPushFollowsNoRedirect(t *testing.T) {
	s := start(t, rig.Options{Backoff: 10 * time.Millisecond})
	c := newClient(t, s)
	inner := newHook(t, 0)
	tries := make(chan struct{}, 100)
	outer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, inner.URL, http.StatusTemporaryRedirect)
		tries <- struct{}{}
	}))
	defer outer.Close()
	c.send(withPush(message("tck-complete-task", "go"), spec.PushConfig{URL: outer.URL}))
	for range 3 {
		select {
		case <-tries:
		case <-time.After(soon):
			t.Fatal("no try")
		}
	}
	inner.mu.Lock()
	defer inner.mu.Unlock()
	if len(inner.got) != 0 {
		t.Errorf("the redirect was followed: %+v", inner.got)
	}
}

func TestPushNotSupported(t *testing.T) {
	s := start(t, rig.Options{NoPush: true})
	c := newClient(t, s)
	task := c.send(message("tck-complete-task", "go"))
	c.refused("PUSH_NOTIFICATION_NOT_SUPPORTED", http.MethodGet, "/tasks/"+task.ID+"/pushNotificationConfigs", nil)
	c.refused("PUSH_NOTIFICATION_NOT_SUPPORTED", http.MethodPost, "/message:send", withPush(message("x", "go"), spec.PushConfig{URL: "https://example.com/"}))
}

// Foreign is not found, for everything.
func TestScoping(t *testing.T) {
	s := start(t, rig.Options{Keys: []adapter.Key{adapter.NewKey("a", "key-a"), adapter.NewKey("b", "key-b")}})
	base := newClient(t, s)
	a, b := base.with(func(c *client) { c.key = "key-a" }), base.with(func(c *client) { c.key = "key-b" })
	task := a.send(message("tck-input-required", "go", func(m *spec.Message) { m.ContextID = "shared" }))
	at := "/tasks/" + task.ID
	for _, call := range [][2]string{
		{http.MethodGet, at},
		{http.MethodPost, at + ":cancel"},
		{http.MethodGet, at + ":subscribe"},
		{http.MethodGet, at + "/pushNotificationConfigs"},
		{http.MethodGet, at + "/pushNotificationConfigs/x"},
		{http.MethodDelete, at + "/pushNotificationConfigs/x"},
	} {
		b.refused("TASK_NOT_FOUND", call[0], call[1], nil)
	}
	b.refused("TASK_NOT_FOUND", http.MethodPost, at+"/pushNotificationConfigs", spec.PushConfig{URL: "https://example.com/"})
	b.refused("TASK_NOT_FOUND", http.MethodPost, "/message:send", message("x", "go", inTask(task.ID)))
	if list := do[spec.ListTasksResponse](b, http.MethodGet, "/tasks?contextId=shared", nil); list.TotalSize != 0 {
		t.Errorf("%+v", list)
	}
	mine := b.send(message("tck-complete-task", "go", func(m *spec.Message) { m.ContextID = "shared" }))
	if mine.ContextID != "shared" || mine.ID == task.ID {
		t.Errorf("%+v", mine)
	}
	for _, c := range []*client{base, base.with(func(c *client) { c.key = "wrong" })} {
		resp, raw := c.raw(http.MethodGet, at, nil)
		if resp.StatusCode != http.StatusUnauthorized || !strings.Contains(string(raw), "UNAUTHENTICATED") {
			t.Errorf("%s %s", resp.Status, raw)
		}
	}
	for _, path := range []string{"/a2a/agents/simulate/.well-known/agent-card.json", "/.well-known/agent-card.json", "/v0.3/.well-known/agent-card.json"} {
		resp, err := http.Get(s.URL + path)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %v %v", path, resp, err)
		}
		resp.Body.Close() //nolint:errcheck // only looked at
	}
}

// Tasks of the host-loop profile and of A2A are the same runs.
func TestSameRuns(t *testing.T) {
	s := start(t, rig.Options{})
	c := newClient(t, s)
	task := c.send(message("tck-complete-task", "go"))
	root := c.with(func(c *client) { c.url, c.hdr = s.URL, map[string]string{"A2A-Version": "0.3.0"} })
	other := do[struct {
		ID, ContextID string
		Status        struct{ State string }
	}](root, http.MethodGet, "/tasks/"+task.ID, nil)
	if other.ID != task.ID || other.ContextID != task.ContextID || other.Status.State != "completed" {
		t.Errorf("%+v", other)
	}
	made := do[struct{ ID string }](root, http.MethodPost, "/message:send", map[string]any{
		"messages": []any{map[string]any{"role": "user", "content": "from the profile"}}, "metadata": map[string]any{"backend": "simulate"},
	})
	seen := c.task(made.ID)
	if seen.Status.State != spec.StateCompleted || len(seen.History) != 1 || *seen.History[0].Parts[0].Text != "from the profile" || seen.ContextID == "" {
		t.Errorf("%+v", seen)
	}
}

// The same Idempotency-Key is the same task.
func TestIdempotencyKey(t *testing.T) {
	s := start(t, rig.Options{})
	c := newClient(t, s).with(func(c *client) { c.hdr = map[string]string{"Idempotency-Key": "once"} })
	req := message("tck-complete-task", "go", func(m *spec.Message) { m.ContextID = "idem" })
	a, b := c.send(req), c.send(req)
	if a.ID != b.ID {
		t.Errorf("%s and %s", a.ID, b.ID)
	}
	c.refused("INVALID_PARAMS", http.MethodPost, "/message:send", message("tck-complete-task", "other"))
	plain := newClient(t, s)
	if one, two := plain.send(req), plain.send(req); one.ID == two.ID {
		t.Error("a repeated messageId alone made no new task")
	}
}

// Secrets in a message are neither stored nor shown.
func TestSecretsAreNotShown(t *testing.T) {
	s := start(t, rig.Options{})
	c := newClient(t, s)
	task := c.send(message("x", "go", settings(map[string]any{
		"backend": "simulate", "credentials": map[string]any{"api_key": "SECRET-KEY"}, "env": map[string]any{"TOKEN": "SECRET-ENV"},
	})))
	if _, raw := c.raw(http.MethodGet, "/tasks/"+task.ID, nil); strings.Contains(string(raw), "SECRET") {
		t.Errorf("%s", raw)
	}
	run, err := s.Runs.Get("default", task.ID)
	if err != nil {
		t.Fatal(err)
	}
	if raw, err := run.Log().Request(); err != nil || strings.Contains(string(raw), "SECRET") {
		t.Errorf("%s %v", raw, err)
	}
	if msg := c.refused("INVALID_PARAMS", http.MethodPost, "/message:send", message("x", "go", settings(map[string]any{"permission_mode": "what"}))); !strings.Contains(msg, "permission_mode") {
		t.Errorf("the field is not named: %s", msg)
	}
}
