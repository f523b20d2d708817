//go:build linux

package soak_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"innerd/events"
	"innerd/test/ledger"
	"innerd/test/server"
)

// What other products were seen to get wrong, and nothing else tries from
// outside. docs/reliability.md has the list.

// peer is a server for one of these.
type peer struct {
	*server.Server
	c *client
	t *testing.T
}

func newPeer(t *testing.T) *peer {
	t.Parallel()
	s := server.New(t, binary)
	s.Start()
	return &peer{Server: s, c: newClient(t, s), t: t}
}

// post starts a run that goes on without readers, and gives its stream.
func (p *peer) post(ctx context.Context, id string, script []object, meta object) io.ReadCloser {
	p.t.Helper()
	m := object{"task_id": id, "events": "all", "detach": true}
	for k, v := range meta {
		m[k] = v
	}
	resp, err := p.c.open(ctx, http.MethodPost, "/message:stream", turn("", "go", script, m))
	return p.body(resp, err)
}

func (p *peer) follow(id string, after int64) io.ReadCloser {
	p.t.Helper()
	resp, err := p.c.open(p.t.Context(), http.MethodGet, fmt.Sprintf("/tasks/%s/events?after=%d", id, after), nil)
	return p.body(resp, err)
}

func (p *peer) body(resp *http.Response, err error) io.ReadCloser {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = resp.Body.Close() }) // the test may have closed it
	if resp.StatusCode != http.StatusOK {
		p.t.Fatal(resp.Status)
	}
	return resp.Body
}

// equal compares what came with the log of an ended run.
func (p *peer) equal(l *ledger.Ledger, id string) ledger.Result {
	p.t.Helper()
	log, err := ledger.Disk(filepath.Join(p.State, "runs", id), false)
	if err != nil {
		p.t.Fatal(err)
	}
	res := l.Compare(log)
	if !res.OK() {
		p.t.Errorf("%v: %s", res, strings.Join(res.Faults, "\n"))
	}
	return res
}

// A reader that was away for three seconds of 2,000 events each gets all of
// them.
func TestAwayForThreeSeconds(t *testing.T) {
	p := newPeer(t)
	const deltas = 8000
	l := ledger.New()
	r := l.Reader("who was away").Whole()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	body := p.post(ctx, "away-for-three", []object{{"flood": object{"deltas": deltas, "per_second": 2000}}}, nil)
	// It goes when it has read some of it, about a second's, however late that came.
	if err := r.Read(io.LimitReader(body, 300<<10)); err == nil {
		t.Fatal("the first part is the whole")
	}
	leave()
	seen := r.Last()
	pause(t.Context(), 3*time.Second)
	if err := r.Read(p.follow("away-for-three", seen)); err != nil {
		t.Fatal(err)
	}
	if res := p.equal(l, "away-for-three"); res.Delivered < deltas || seen >= deltas {
		t.Errorf("%v; %d before it went", res, seen)
	}
}

// Events are kept in memory by their bytes, not by their number: many large
// ones take no more than a few.
func TestLargeEventsAreBoundedByBytes(t *testing.T) {
	p := newPeer(t)
	few := p.large("a-few-large-ones", 16)
	many := p.large("many-large-ones", 48) // 400 MB with their deltas
	t.Logf("%d MB at the most with a few, %d MB with many", few/1e6, many/1e6)
	// A collection finds what was kept before it; hence more than nothing.
	if many > few+150e6 {
		t.Errorf("they take %d MB more", (many-few)/1e6)
	}
}

// large plays messages of 4 MiB and gives the most that the server held
// meanwhile.
func (p *peer) large(id string, messages int) (most int64) {
	p.t.Helper()
	const size = 4 << 20
	text := strings.Repeat("all of this is one event. ", size/26)
	l := ledger.New()
	done := make(chan error, 1)
	body := p.post(p.t.Context(), id, []object{{"repeat": messages, "steps": []object{{"text": text, "chunk_bytes": 1 << 20}}}}, nil)
	go func() { done <- l.Reader("the reader").Whole().Read(body) }() // ends with the run
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			if err != nil {
				p.t.Fatal(err)
			}
			p.equal(l, id)
			return most
		case <-tick.C:
			v, err := look(p.Pid())
			if err != nil {
				p.t.Fatal(err)
			}
			most = max(most, v.rss)
		}
	}
}

// What a message costs on the wire grows with its length, not with its square.
func TestBytesAreLinear(t *testing.T) {
	p := newPeer(t)
	const frame = 200 // bytes of one around its text, at the most
	for _, size := range []int{2_000, 16_000, 64_000} {
		id := fmt.Sprintf("linear-%d", size)
		text := strings.Repeat("word ", size/5)
		raw, err := io.ReadAll(p.post(t.Context(), id, []object{{"text": text}}, nil))
		if err != nil {
			t.Fatal(err)
		}
		frames := strings.Count(string(raw), "\n\n")
		if limit := 2*len(text) + frames*frame; len(raw) > limit || frames < size/5 {
			t.Errorf("%d bytes of text came as %d bytes in %d frames", len(text), len(raw), frames)
		}
	}
}

// While a turn runs, and while it waits for its host, every other call is
// answered, and a cancel ends it at once.
func TestNothingWaitsForATurn(t *testing.T) {
	p := newPeer(t)
	calls := []string{"/health", "/ready", "/backends", "/tasks", "/conversations", "/debug/streams", "/metrics", "/.well-known/agent-card.json"}
	for id, c := range map[string]struct {
		script []object
		until  events.Type
	}{
		"it-works":         {[]object{{"text": "a"}, {"stall": true}}, events.TypeMessage},
		"it-is-in-a-tool":  {[]object{{"tool": object{"name": "shell", "ms": 3_600_000}}}, events.TypeToolCall},
		"it-waits-for-you": {[]object{{"call": object{"tool": "lookup"}}}, events.TypeToolRequest},
	} {
		body := p.post(t.Context(), id, c.script, nil)
		seen := make(chan struct{})
		over := make(chan error, 1)
		ears := &watcher{until: c.until, seen: seen}
		go func() { over <- ledger.New().Reader(id).Read(io.TeeReader(body, ears)) }() // ends with the run
		<-seen
		for _, path := range append(calls, "/tasks/"+id) {
			if status, answer, err := p.c.call(t.Context(), http.MethodGet, path, nil); err != nil || status != http.StatusOK {
				t.Errorf("%s, GET %s: %d %v %.200s", id, path, status, err, answer)
			}
		}
		if status, answer, err := p.c.call(t.Context(), http.MethodPost, "/tasks/"+id+":cancel", object{}); err != nil || status != http.StatusOK || !strings.Contains(string(answer), `"canceled"`) {
			t.Errorf("%s: the cancel: %d %v %.300s", id, status, err, answer)
		}
		if err := <-over; err != nil {
			t.Errorf("%s: its stream ended with %v", id, err)
		}
	}
}

// watcher says when a stream has an event of a type.
type watcher struct {
	until events.Type
	seen  chan struct{}
	said  bool
	text  strings.Builder
}

func (w *watcher) Write(p []byte) (int, error) {
	w.text.Write(p)
	if !w.said && strings.Contains(w.text.String(), `"type":"`+string(w.until)+`"`) {
		w.said = true
		close(w.seen)
	}
	return len(p), nil
}

// An agent that dies is told at once, with how it died, to who posted the turn;
// the conversation works on.
func TestDeathIsToldAtOnce(t *testing.T) {
	p := newPeer(t)
	// Nothing waits in between, so it is milliseconds of work, of which a busy
	// machine may make more: the best of some is told. What waited, for output that
	// nobody holds or for a watchdog, would do so each time.
	told, took := time.Hour, time.Hour
	for tries := 0; tries < 10 && (told > time.Second || took > 5*time.Second); tries++ {
		begin := time.Now()
		tape := p.Post(t, turn("it-dies", "go", []object{{"text": "and then"}, {"crash": object{"exit_code": 7, "stderr": "out of luck"}}}, object{"events": "all", "context_reuse": false})).Whole()
		took = min(took, time.Since(begin))
		all := tape.Events()
		if all[len(all)-3].Type() != events.TypeMessage {
			t.Fatalf("its last word is no message: %s", tape)
		}
		told = min(told, time.Duration(all[len(all)-1].TS-all[len(all)-3].TS)*time.Millisecond) // from the last word, by the server's clock
		f, end := tape.Failure(), tape.End()
		if f == nil || f.ErrorType != events.ErrBackendCrashed || end.ExitCode == nil || *end.ExitCode != 7 || !strings.Contains(end.StderrTail, "out of luck") {
			t.Errorf("%+v, %+v", f, end)
		}
	}
	if told > time.Second || took > 5*time.Second {
		t.Errorf("the end came %v after its last word, %v after the POST", told, took)
	}
	again := p.Post(t, turn("it-dies", "and again", []object{{"text": "here I am"}}, object{"events": "all"})).Completed()
	if again.Text() != "here I am" {
		t.Errorf("then it says %q", again.Text())
	}
	t.Logf("told %v after its last word, %v after the POST", told, took)
}
