package adapter_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"innerd/adapter"
	"innerd/events"
)

func TestStream(t *testing.T) {
	s := serve(t, nil)
	r := s.stream(t, "POST", "/message:stream", `{"context_id":"c","messages":[{"role":"user","content":"hi"}]}`)
	for name, want := range map[string]string{
		"Content-Type": "text/event-stream", "X-Accel-Buffering": "no", "Content-Encoding": "", "Content-Length": "", "A2A-Version": "0.3.0",
	} {
		if got := r.res.Header.Get(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	run := <-s.fake.started
	// The first event is there before the agent does anything.
	f := r.want("session.task_id")
	if f.id != "1" || !strings.Contains(f.data, `"task_id":"task-0001"`) {
		t.Errorf("%+v", f)
	}
	run.say(t, events.Status{State: "working"}, delta("h\u0085a"), delta("ha"), delta("ha"))
	for i, id := range []string{"3", "4", "5"} { // the status is not basic
		if f := r.want("assistant.message_delta"); f.id != id {
			t.Errorf("delta %d: %+v", i, f)
		}
	}
	run.end(t, events.Message{Content: "h\u0085ahaha", MessageID: "m1"})
	list := r.finish()
	if got := types(list); got != "assistant.message assistant.usage session.end" {
		t.Error(got)
	}
	for _, f := range list {
		for _, c := range []byte(f.data) {
			if c >= 0x80 {
				t.Fatalf("not ASCII: %q", f.data)
			}
		}
	}
	if n := <-run.attached; n != 1 {
		t.Error("not attached")
	}
	if n := <-run.attached; n != -1 {
		t.Error("not detached")
	}
}

func TestStreamFilters(t *testing.T) {
	s := serve(t, nil)
	for _, c := range []struct{ meta, want string }{
		{`{}`, "session.task_id session.input_required assistant.usage session.end"},
		{`{"events":"all"}`, "session.task_id session.status permission.request session.plan session.input_required assistant.usage session.end"},
		{`{"events":["session.plan"]}`, "session.task_id session.plan session.input_required assistant.usage session.end"},
		{`{"permission_mode":"ask"}`, "session.task_id permission.request session.input_required assistant.usage session.end"},
	} {
		r := s.stream(t, "POST", "/message:stream", `{"metadata":`+c.meta+`}`)
		run := <-s.fake.started
		run.end(t, events.Status{State: "working"}, events.PermissionRequest{RequestID: "r"}, events.Plan{}, events.InputRequired{RequestID: "q"})
		if got := types(r.finish()); got != c.want {
			t.Errorf("%s:\n%s, want\n%s", c.meta, got, c.want)
		}
	}
}

// What readers get is, byte for byte, what the log holds, whatever its size.
func TestFramesAreTheLogs(t *testing.T) {
	s := serve(t, nil)
	res := s.do(t, "POST", "/message:stream", `{"metadata":{"events":"all"}}`)
	run := <-s.fake.started
	got := make(chan []byte, 1)
	go func() {
		data, err := io.ReadAll(res.Body)
		if err != nil {
			t.Error(err)
		}
		got <- data
	}()
	for i := range 30_000 {
		run.say(t, delta(fmt.Sprintf("%040d", i)))
		if i%5000 == 0 {
			run.say(t, events.Status{State: "notice", Detail: "x"}, delta(strings.Repeat("long ", 100_000)))
		}
	}
	run.end(t)
	want := append(journalFrames(t, run.log), "data: [DONE]\n\n"...)
	if data := <-got; !bytes.Equal(data, want) {
		t.Fatalf("%d bytes, want %d", len(data), len(want))
	}
	// And the same again by replay, with a filter in between.
	r := s.stream(t, "GET", "/tasks/"+run.ID()+"/events?after=30000", "")
	list := r.finish()
	if list[0].id != "30001" || list[len(list)-1].typ != "session.end" {
		t.Errorf("%+v … %+v", list[0], list[len(list)-1])
	}
}

func TestHeartbeats(t *testing.T) {
	s := serve(t, func(o *adapter.Options) { o.Heartbeat = 20 * time.Millisecond })
	for _, path := range []string{"POST /message:stream", "GET /tasks/task-0001/events"} {
		method, path, _ := strings.Cut(path, " ")
		r := s.stream(t, method, path, `{}`)
		r.want("session.task_id")
		for range 3 {
			f := r.want("heartbeat")
			if f.id != "" || !strings.Contains(f.data, `"status":"waiting"`) || !strings.Contains(f.data, `"elapsed_s":`) || !strings.Contains(f.data, `"idle_s":`) {
				t.Errorf("%+v", f)
			}
		}
	}
	run := <-s.fake.started
	// Events that this reader does not get do not keep its heart from beating.
	r := s.stream(t, "POST", "/message:stream", `{}`)
	other := <-s.fake.started
	r.want("session.task_id")
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				_, _ = other.log.Append(events.Status{State: "working"})
			}
		}
	}()
	r.want("heartbeat")
	close(stop)
	<-done
	run.end(t)
	other.end(t)
	r.finish()
}

// A stream that ends before its run is an error to its reader.
func TestCutStreamIsNoCleanEnd(t *testing.T) {
	s := serve(t, nil)
	r := s.stream(t, "POST", "/message:stream", `{}`)
	r.want("session.task_id")
	s.adapter.Cut()
	if list, err := r.rest(); err == nil {
		t.Errorf("a clean end after %+v", list)
	}
}

func TestPanicInAStreamIsNoCleanEnd(t *testing.T) {
	s := serve(t, func(o *adapter.Options) { o.Heartbeat = 5 * time.Millisecond })
	r := s.stream(t, "POST", "/message:stream", `{}`)
	run := <-s.fake.started
	r.want("session.task_id")
	close(run.attached) // detaching panics
	<-run.attached
	run.end(t)
	if list, err := r.rest(); err == nil {
		t.Errorf("a clean end after %+v", list)
	}
	s.fails(t, "GET", "/tasks/none", "", 404, "not_found", "")
}

func TestClientGoneIsNoticed(t *testing.T) {
	s := serve(t, nil)
	for _, path := range []string{"/message:stream", "/message:send"} {
		conn := rawStream(t, s, "HTTP/1.1", path, "")
		run := <-s.fake.started
		<-run.attached
		_ = conn.Close()
		select {
		case <-run.attached:
		case <-time.After(time.Minute):
			t.Fatalf("%s: a client that hung up is still a reader", path)
		}
	}
}

func TestOldHTTP(t *testing.T) {
	s := serve(t, nil)
	for _, c := range [][2]string{{"HTTP/1.0", ""}, {"HTTP/1.1", "Connection: close\r\n"}} {
		conn := rawStream(t, s, c[0], "/message:stream", c[1])
		run := <-s.fake.started
		run.say(t, delta("a"))
		run.end(t)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || !strings.HasSuffix(string(data), "data: [DONE]\n\n") {
			t.Errorf("%v: %q %v", c, data, err)
		}
		if rest, err := io.ReadAll(conn); len(rest) != 0 || err != nil {
			t.Errorf("%v: the connection stays open: %q %v", c, rest, err)
		}
	}
}

// The body ends at once after [DONE], and the connection serves on.
func TestKeepAlive(t *testing.T) {
	s := serve(t, nil)
	for range 3 {
		r := s.stream(t, "POST", "/message:stream", `{}`)
		(<-s.fake.started).end(t)
		r.finish()
	}
}

func TestTaskIDMakesIdempotent(t *testing.T) {
	s := serve(t, nil)
	body := `{"context_id":"c","metadata":{"task_id":"my-task-1","model":"m"}}`
	first := s.stream(t, "POST", "/message:stream", body)
	run := <-s.fake.started
	run.say(t, delta("a"), delta("b"))
	first.want("session.task_id")
	// The order of names, white space and new credentials change nothing.
	same := ` {"metadata" : {"credentials":{"api_key":"k"},"model":"m","task_id":"my-task-1"},"context_id":"c"}`
	second := s.stream(t, "POST", "/message:stream", same)
	if f := second.want("session.task_id"); f.id != "1" {
		t.Errorf("%+v", f)
	}
	third := s.stream(t, "POST", "/message:stream", same, "Last-Event-ID", "2")
	if f := third.want("assistant.message_delta"); f.id != "3" {
		t.Errorf("%+v", f)
	}
	odd := s.stream(t, "POST", "/message:stream", same, "Last-Event-ID", "x")
	odd.want("session.task_id")
	s.fails(t, "POST", "/message:stream", `{"metadata":{"task_id":"my-task-1","model":"other"}}`, 409, "conflict", "")
	run.end(t)
	for _, r := range []*reader{first, second, third, odd} {
		r.finish()
	}
	if code, body := s.call(t, "POST", "/message:send", same); code != 200 || !strings.Contains(body, `"completed"`) {
		t.Errorf("%d %s", code, body)
	}
	if list := s.stream(t, "POST", "/message:stream", same, "Last-Event-ID", "5").finish(); len(list) != 0 {
		t.Errorf("%+v", list)
	}
	s.fails(t, "POST", "/message:stream", same, 410, "not_found", "", "Last-Event-ID", "99")
	if len(s.fake.specs) != 1 {
		t.Errorf("%d runs", len(s.fake.specs))
	}
}

func TestEvents(t *testing.T) {
	s := serve(t, nil)
	r := s.stream(t, "POST", "/message:stream", `{}`)
	run := <-s.fake.started
	run.say(t, events.Status{State: "working"}, delta("a"))
	path := "/tasks/" + run.ID() + "/events"
	all := s.stream(t, "GET", path, "")
	if f := all.want("session.task_id"); f.id != "1" {
		t.Errorf("%+v", f)
	}
	all.want("session.status")
	all.want("assistant.message_delta")
	for _, c := range []struct{ query, header string }{{"?after=2", ""}, {"", "2"}, {"?after=0", "2"}} {
		h := []string{}
		if c.header != "" {
			h = []string{"Last-Event-ID", c.header}
		}
		if f := s.stream(t, "GET", path+c.query, "", h...).want("assistant.message_delta"); f.id != "3" {
			t.Errorf("%+v: %+v", c, f)
		}
	}
	live := s.stream(t, "GET", path+"?after=3", "") // nothing yet, but it lives
	run.end(t)
	if got := types(live.finish()); got != "assistant.usage session.end" {
		t.Error(got)
	}
	all.finish()
	r.finish()

	if code, body := s.call(t, "GET", path+"?after=5", ""); code != 204 || body != "" {
		t.Errorf("nothing left: %d %q", code, body)
	}
	if code, body := s.call(t, "GET", path+"?after=6", ""); code != 410 || !strings.Contains(body, `"oldest":1,"latest":5`) || !strings.Contains(body, `"detail"`) {
		t.Errorf("past the end: %d %s", code, body)
	}
	s.fails(t, "GET", path+"?after=-1", "", 400, "invalid_request", "Last-Event-ID")
	s.fails(t, "GET", path+"?after=x", "", 400, "invalid_request", "")
	s.fails(t, "GET", "/tasks/none/events", "", 404, "not_found", "")
	if got := len(s.stream(t, "GET", path, "").finish()); got != 5 {
		t.Errorf("%d events", got)
	}
}

func TestSend(t *testing.T) {
	s := serve(t, nil)
	type answer struct {
		code int
		body string
	}
	got := make(chan answer, 1)
	go func() {
		res, err := s.Client().Do(s.request(t, "POST", "/message:send", `{}`))
		if err != nil {
			got <- answer{0, err.Error()}
			return
		}
		defer res.Body.Close()
		data, _ := io.ReadAll(res.Body)
		got <- answer{res.StatusCode, string(data)}
	}()
	run := <-s.fake.started
	if n := <-run.attached; n != 1 {
		t.Error("not a reader")
	}
	run.say(t, events.InputRequired{RequestID: "q"}, delta("a"))
	select {
	case a := <-got:
		t.Fatalf("answered while it waits for input: %+v", a)
	case <-time.After(20 * time.Millisecond):
	}
	run.end(t, events.Message{Content: "a", MessageID: "m1"}, events.NewError("quota", "no money"))
	a := <-got
	for _, want := range []string{
		`"state":"completed"`, `"artifacts":[{"artifactId":"m1","mimeType":"text/plain","parts":[{"kind":"text","text":"a"}],"index":0}]`,
		`"error":{"message":"rate limit (quota): no money","error_type":"quota"}`, `"history":[]`, `"contextId":""`, `"last_event_id":`,
	} {
		if a.code != 200 || !strings.Contains(a.body, want) {
			t.Errorf("%d %s, want %s", a.code, a.body, want)
		}
	}
}

func TestDebugStreams(t *testing.T) {
	s := serve(t, func(o *adapter.Options) { o.Open, o.Keys = false, adapter.ParseKeys("a:sa,b:sb") })
	s.fake.unknown = map[string]int64{"new/event": 2}
	s.key = "sa"
	r := s.stream(t, "POST", "/message:stream", `{}`)
	run := <-s.fake.started
	r.want("session.task_id")
	second := s.stream(t, "GET", "/tasks/"+run.ID()+"/events", "")
	second.want("session.task_id")
	code, body := s.call(t, "GET", "/debug/streams", "")
	for _, want := range []string{`"stream_count":2`, `"task-0001":{"readers":2,`, `"server_uptime":`, `"unknown_events":{"new/event":2}`} {
		if code != 200 || !strings.Contains(body, want) {
			t.Errorf("%d %s, want %s", code, body, want)
		}
	}
	s.key = "sb"
	if _, body := s.call(t, "GET", "/debug/streams", ""); !strings.Contains(body, `"active_streams":{},"stream_count":0`) {
		t.Errorf("another owner sees %s", body)
	}
	s.fails(t, "GET", "/tasks/"+run.ID()+"/events", "", 404, "not_found", "")
	run.end(t)
	r.finish()
	second.finish()
}
