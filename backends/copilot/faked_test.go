package copilot_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"innerd/test/agents"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/backends/copilot"
	"innerd/events"
)

// faked is a backend on the fake.
type faked struct {
	*copilot.Backend
	script string
	home   string
	mu     sync.Mutex
	saved  []backends.Session
	strays atomic.Int64
}

// newFake makes a backend whose process plays the acts.
func newFake(t *testing.T, script ...act) *faked {
	t.Helper()
	f := &faked{script: filepath.Join(t.TempDir(), "script"), home: t.TempDir()}
	f.write(t, script)
	children := backends.NewChildren(backends.ChildrenOptions{})
	f.Backend = copilot.New(&copilot.Options{
		Path: fakeBinary(t), Home: f.home, Children: children,
		Getenv: env(map[string]string{"INNERD_COPILOT_API_KEY": "sk-secret-of-the-test", "INNERD_COPILOT_BASE_URL": "http://127.0.0.1:9/v1"}),
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := f.Close(ctx); err != nil {
			t.Error(err)
		}
		if err := children.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return f
}

// write gives the next process another script.
func (f *faked) write(t *testing.T, script []act) {
	t.Helper()
	b, err := json.Marshal(script)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(f.script, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// fakeBinary is this program, with what lies beside a copilot.
func fakeBinary(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	pkg := filepath.Join(dir, "pkg-cache", "pkg", "linux-x64", copilot.Version)
	if err := os.MkdirAll(pkg, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{filepath.Join(pkg, "app.js"): "", filepath.Join(dir, "package.json"): `{"version":"` + copilot.Version + `"}`} {
		if err := os.WriteFile(name, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "copilot")
	agents.WriteProgram(t, path, "#!/bin/sh\nexec "+self+" \"$@\"\n")
	return path
}

// open opens a conversation that shares the fake with the others.
func (f *faked) open(t *testing.T, change func(*backends.Config)) backends.Conversation {
	t.Helper()
	cfg := backends.Config{
		ID: "01TESTTESTTESTTESTTESTTEST", Dir: t.TempDir(), Grace: 300 * time.Millisecond,
		Env: map[string]string{"COPILOTTEST_ROLE": "fake", "FAKE_SCRIPT": f.script, "COPILOT_HOME": "/not/this"},
		Save: func(s backends.Session) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.saved = append(f.saved, s)
			return nil
		},
		Stray: func(events.Event) { f.strays.Add(1) },
	}
	if change != nil {
		change(&cfg)
	}
	c, err := f.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return c
}

// heard are the messages that the fake has read.
func (f *faked) heard(t *testing.T) []string {
	t.Helper()
	raw, err := os.ReadFile(f.script + ".in")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(raw)), "\n")
}

// sent counts what the fake has read of a kind.
func (f *faked) sent(t *testing.T, part string) (n int) {
	t.Helper()
	for _, m := range f.heard(t) {
		if strings.Contains(m, part) {
			n++
		}
	}
	return n
}

// launch is how a fake was started.
type launch struct {
	Args []string
	Env  []string
}

func (f *faked) launches(t *testing.T) []launch {
	t.Helper()
	raw, err := os.ReadFile(f.script + ".launches")
	if err != nil {
		t.Fatal(err)
	}
	var out []launch
	for line := range strings.Lines(string(raw)) {
		var x launch
		if err := json.Unmarshal([]byte(line), &x); err != nil {
			t.Fatal(err)
		}
		out = append(out, x)
	}
	return out
}

// run plays one turn and gives its log.
func run(t testing.TB, ctx context.Context, c backends.Conversation, turn backendtest.Turn, set backends.Settings) (*backendtest.Recorder, backends.Outcome, error) {
	t.Helper()
	rec := backendtest.NewRecorder(turn, nil, nil)
	out, err := c.Run(ctx, backends.Input{Parts: []events.Part{events.Text("x")}, Set: set}, rec)
	rec.Close()
	for _, fault := range append(rec.Faults(), backendtest.CheckOrder(rec.Events(), err == nil)...) {
		t.Error(fault)
	}
	return rec, out, err
}

// messages are the texts of the messages of a log.
func messages(rec *backendtest.Recorder) (out []string) {
	text := map[string]string{}
	for _, e := range rec.Events() {
		switch d := e.Data.(type) {
		case events.MessageDelta:
			text[d.MessageID] += d.Delta
		case events.Message:
			out = append(out, text[d.MessageID])
			text[d.MessageID] = ""
		}
	}
	return out
}

// keepSession makes copilot's file of a session.
func (f *faked) keepSession(t *testing.T, session string) {
	t.Helper()
	dir := filepath.Join(f.home, "copilot", "session-state", session)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "events.jsonl"), []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func class(err error) string {
	var e *backends.Error
	if errors.As(err, &e) {
		return e.Type
	}
	return ""
}
