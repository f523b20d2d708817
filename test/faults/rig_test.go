//go:build linux

package faults_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"innerd/test/agents"
	"innerd/test/ledger"
	"innerd/test/modelstub"
	"innerd/test/server"
)

// rig is a server that is to be hurt. It may be started again elsewhere while
// readers follow its runs.
type rig struct {
	*server.Server
	addr atomic.Pointer[string] // where it listens, or did last
}

// newRig makes a rig and does not start it. How long its agents take to start,
// and to stop, is up to what else the machine does.
func newRig(t testing.TB) *rig {
	r := &rig{Server: server.New(t, innerd)}
	r.Args = append(r.Args, "--open-timeout", "5m", "--stop-timeout", "45s")
	return r
}

// start starts the server and waits until it is ready.
func (r *rig) start() *rig {
	r.T.Helper()
	r.Start()
	url := r.URL()
	r.addr.Store(&url)
	return r
}

// killed ends the server with SIGKILL, starts it again and gives how long it
// took to be ready.
func (r *rig) killed() time.Duration {
	r.T.Helper()
	r.Kill()
	return r.again()
}

// again starts a server that was killed and gives how long it took to be
// ready. Nothing of what the old one started may be there then.
func (r *rig) again() time.Duration {
	r.T.Helper()
	began := time.Now()
	r.start()
	took := time.Since(began)
	if left := r.Strays(); len(left) > 0 {
		r.T.Errorf("the server is ready, and what the old one started is there: %s", server.Describe(left))
	}
	return took
}

// claude has the server run the real Claude Code, against a scripted model.
func (r *rig) claude(turns ...modelstub.Turn) *modelstub.Scenario {
	r.T.Helper()
	stub := modelstub.New()
	r.T.Cleanup(stub.Close)
	sc := stub.Scenario(turns...)
	r.Env = append(r.Env, "INNERD_CLAUDE_CODE_PATH="+agents.Claude(r.T).Path, "ANTHROPIC_API_KEY="+sc.Key(), "ANTHROPIC_BASE_URL="+sc.BaseURL())
	return sc
}

// body is a request of one prompt; all events are asked for, and the run
// outlives its readers, unless meta says otherwise.
func body(backend, text string, meta map[string]any) map[string]any {
	all := map[string]any{"backend": backend, "events": "all", "detach": true}
	for k, v := range meta {
		all[k] = v
	}
	return map[string]any{"messages": []any{map[string]any{"role": "user", "content": text}}, "metadata": all}
}

// simulate is a run of the simulated agent with a script in JSON.
func simulate(steps string, meta map[string]any) map[string]any {
	b := body("simulate", "go on", meta)
	b["metadata"].(map[string]any)["agent_options"] = map[string]any{"script": json.RawMessage(steps)}
	return b
}

// in puts a request into a conversation.
func in(contextID string, b map[string]any) map[string]any {
	b["context_id"] = contextID
	return b
}

// client keeps no connections: each one is a reader's own.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true, ReadBufferSize: 64 << 10}}

// open opens the events of a run after an id at an address.
func (r *rig) open(ctx context.Context, url, task string, after int64) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/tasks/%s/events?after=%d", url, task, after), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+r.Key())
	resp, err := client.Do(req)
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode == http.StatusNoContent:
		return resp.Body, errOver
	case resp.StatusCode != http.StatusOK:
		answer, _ := io.ReadAll(resp.Body) // for the message
		_ = resp.Body.Close()
		return nil, fmt.Errorf("status %d: %s", resp.StatusCode, answer)
	}
	return resp.Body, nil
}

var errOver = errors.New("the run has ended, and nothing is left")

// reading is a reader of a ledger at work. It ends with the test at the latest.
type reading struct {
	*ledger.Reader
	t    testing.TB
	over chan struct{}
	err  error // how it ended; read it once over is closed
}

// read has a reader read beside the test.
func read(t testing.TB, to *ledger.Reader, how func(context.Context) error) *reading {
	ctx, cancel := context.WithCancel(context.Background())
	p := &reading{Reader: to, t: t, over: make(chan struct{})}
	go func() { // ends with how, at the latest when the test does
		defer close(p.over)
		p.err = how(ctx)
	}()
	t.Cleanup(func() { cancel(); <-p.over })
	return p
}

// attached is a reader with one connection, which is made when this returns.
func (r *rig) attached(l *ledger.Ledger, name, task string, after int64) *reading {
	r.T.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := r.open(ctx, *r.addr.Load(), task, after)
	if err != nil {
		cancel()
		r.T.Fatalf("%s: %v", name, err)
	}
	to := l.Reader(name).After(after)
	return read(r.T, to, func(over context.Context) error {
		defer cancel()
		defer context.AfterFunc(over, cancel)()
		defer stream.Close() //nolint:errcheck // only read
		return to.Read(stream)
	})
}

// returning is a reader that comes back with the last id that it saw until it
// has seen the end, wherever the server is by then. It must get everything.
func (r *rig) returning(l *ledger.Ledger, name, task string) *reading {
	to := l.Reader(name).Whole()
	return read(r.T, to, func(ctx context.Context) error {
		return r.comeBack(ctx, to, task, func() string { return *r.addr.Load() })
	})
}

func (r *rig) comeBack(ctx context.Context, to *ledger.Reader, task string, url func() string) error {
	for {
		stream, err := r.open(ctx, url(), task, to.Last())
		if err == nil {
			err = to.Read(stream)
			_ = stream.Close() // only read
		}
		if err == nil || errors.Is(err, errOver) {
			return nil
		}
		select { // the server is away, or the connection is cut
		case <-time.After(3 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

// late is a reader that gets the whole log at once, after the end.
func (r *rig) late(l *ledger.Ledger, name, task string) {
	r.T.Helper()
	p := r.attached(l, name, task, 0)
	p.Whole()
	p.clean()
}

// reaches waits until the reader has been given an id.
func (p *reading) reaches(id int64) {
	p.t.Helper()
	limit := time.NewTimer(2 * server.Soon)
	defer limit.Stop()
	for {
		last, more := p.Moved()
		if last >= id {
			return
		}
		select {
		case <-more:
		case <-p.over:
			if p.Last() < id {
				p.t.Fatalf("%s: the stream is over at event %d, before %d: %v", p.Name(), p.Last(), id, p.err)
			}
			return
		case <-limit.C:
			p.t.Fatalf("%s: only event %d came, not %d", p.Name(), last, id)
		}
	}
}

// ends waits for the end of the reading and gives how it ended.
func (p *reading) ends() error {
	p.t.Helper()
	select {
	case <-p.over:
		return p.err
	case <-time.After(2 * server.Soon):
		p.t.Fatalf("%s: the stream does not end, at event %d", p.Name(), p.Last())
		return nil
	}
}

// clean waits for an end with [DONE].
func (p *reading) clean() {
	p.t.Helper()
	if err := p.ends(); err != nil {
		p.t.Errorf("%s: the stream ended with %v", p.Name(), err)
	}
}

// broken waits for the end of a stream whose server was killed. A clean end
// would mean success to a host.
func (p *reading) broken() {
	p.t.Helper()
	if err := p.ends(); err == nil || errors.Is(err, ledger.ErrCut) {
		p.t.Errorf("%s: the stream of a dead server ended as if it were whole (%v)", p.Name(), err)
	}
}

// taped gives a tape's events to a reader of a ledger.
func taped(l *ledger.Ledger, name string, tape *server.Tape) *ledger.Reader {
	to := l.Reader(name)
	lines := tape.Lines() // at least those of the events below, once the tape has ended
	for i, e := range tape.Events() {
		to.Add(e.ID, []byte(lines[i]))
	}
	return to
}

// runDir is where a run's log is.
func (r *rig) runDir(task string) string { return filepath.Join(r.State, "runs", task) }

// compare compares a run's readers with its log as it is on disk.
func (r *rig) compare(l *ledger.Ledger, task string) ledger.Result {
	r.T.Helper()
	log, err := ledger.Disk(r.runDir(task), true)
	if err != nil {
		r.T.Fatal(err)
	}
	return l.Compare(log)
}

// logged reports whether the server has written a line with all of these.
func (r *rig) logged(parts ...string) bool {
	for line := range strings.Lines(r.Log()) {
		all := true
		for _, part := range parts {
			all = all && strings.Contains(line, part)
		}
		if all {
			return true
		}
	}
	return false
}
