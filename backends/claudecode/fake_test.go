package claudecode_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"innerd/backends"
	"innerd/backends/claudecode"
	"innerd/events"
)

// act is one thing the fake claude does. Texts may hold {{req}}, the
// request_id of the last line it read, {{uuid}}, that of the last user
// message, and {{sid}}, its session.
type act struct {
	Expect string // reads a line of stdin, which must hold this
	Print  string // prints a line
	Raw    string // prints bytes
	Slow   string // prints a line in three pieces
	Stderr string
	Exit   *int
	Sleep  int  // milliseconds
	Hang   bool // reads on and answers nothing, and ignores TERM for it takes none
	Drain  bool // reads to the end and exits with 0
}

// ready is how every start goes.
var ready = []act{
	{Expect: `"subtype":"initialize"`},
	{Print: `{"type":"control_response","response":{"subtype":"success","request_id":"{{req}}","response":{}}}`},
}

const (
	okResult = `{"is_error":false,"stop_reason":"end_turn","type":"result","user_message_uuids":["{{uuid}}"],"model_usage_since_last_result":{"claude-x":{"inputTokens":1,"outputTokens":2,"costUSD":0.5}}}`
	said     = `{"type":"assistant","message":{"id":"m","model":"claude-x","content":[{"type":"text","text":"%s"}]}}`
)

func say(text string) act { return act{Print: fmt.Sprintf(said, text)} }

func exit(code int) *int { return &code }

// fake is the body of the fake's process.
func fake() int {
	raw, err := os.ReadFile(os.Getenv("FAKE_SCRIPT"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "fake:", err)
		return 98
	}
	var script []act
	if err := json.Unmarshal(raw, &script); err != nil {
		fmt.Fprintln(os.Stderr, "fake:", err)
		return 98
	}
	dumpLaunch()
	return (&player{in: bufio.NewReader(os.Stdin), vars: map[string]string{"sid": argAfter("--session-id")}}).play(script)
}

// dumpLaunch leaves how the fake was started where the test finds it.
func dumpLaunch() {
	var key []byte
	if strings.Contains(strings.Join(os.Environ(), "\n"), "_FILE_DESCRIPTOR=3") {
		key, _ = io.ReadAll(os.NewFile(3, "key"))
	}
	b, _ := json.Marshal(map[string]any{"args": os.Args[1:], "env": os.Environ(), "key": string(key)})
	f, err := os.OpenFile(os.Getenv("FAKE_SCRIPT")+".launches", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, _ = f.Write(append(b, '\n'))
		_ = f.Close()
	}
}

func argAfter(flag string) string {
	for i, a := range os.Args {
		if a == flag && i+1 < len(os.Args) {
			return os.Args[i+1]
		}
	}
	return ""
}

type player struct {
	in   *bufio.Reader
	vars map[string]string
}

func (p *player) play(script []act) int {
	for _, a := range script {
		switch {
		case a.Expect != "":
			if err := p.expect(p.fill(a.Expect)); err != nil {
				fmt.Fprintln(os.Stderr, "fake:", err)
				return 97
			}
		case a.Print != "":
			fmt.Println(p.fill(a.Print))
		case a.Raw != "":
			fmt.Print(a.Raw)
		case a.Slow != "":
			s := p.fill(a.Slow) + "\n"
			for i := range 3 {
				fmt.Print(s[i*len(s)/3 : (i+1)*len(s)/3])
				time.Sleep(20 * time.Millisecond)
			}
		case a.Stderr != "":
			fmt.Fprintln(os.Stderr, a.Stderr)
		case a.Exit != nil:
			return *a.Exit
		case a.Sleep > 0:
			time.Sleep(time.Duration(a.Sleep) * time.Millisecond)
		case a.Hang:
			_, _ = io.Copy(io.Discard, p.in)
			select {}
		case a.Drain:
			_, _ = io.Copy(io.Discard, p.in)
		}
	}
	return 0
}

func (p *player) fill(s string) string {
	for k, v := range p.vars {
		s = strings.ReplaceAll(s, "{{"+k+"}}", v)
	}
	return s
}

func (p *player) expect(want string) error {
	line, err := p.in.ReadString('\n')
	if err != nil {
		return fmt.Errorf("no line with %s: %w", want, err)
	}
	p.hear(line)
	var m struct {
		RequestID string `json:"request_id"`
		UUID      string `json:"uuid"`
	}
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		return fmt.Errorf("stdin is not JSON: %w", err)
	}
	if m.RequestID != "" {
		p.vars["req"] = m.RequestID
	}
	if m.UUID != "" {
		p.vars["uuid"] = m.UUID
	}
	if !strings.Contains(line, want) {
		return fmt.Errorf("want %s, got %s", want, line)
	}
	return nil
}

// hear leaves what the fake was told where the test finds it.
func (p *player) hear(line string) {
	f, err := os.OpenFile(os.Getenv("FAKE_SCRIPT")+".heard", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, _ = f.WriteString(line)
		_ = f.Close()
	}
}

// faked is a conversation with the fake.
type faked struct {
	backends.Conversation
	script  string
	backend *claudecode.Backend
	saved   []backends.Session
	save    func() error // nil: it is kept
	home    string
	logged  tallyLog
	strays  atomic.Int64
}

// tallyLog counts what is logged.
type tallyLog struct{ n atomic.Int64 }

func (l *tallyLog) Enabled(context.Context, slog.Level) bool  { return true }
func (l *tallyLog) Handle(context.Context, slog.Record) error { l.n.Add(1); return nil }
func (l *tallyLog) WithAttrs([]slog.Attr) slog.Handler        { return l }
func (l *tallyLog) WithGroup(string) slog.Handler             { return l }

// openFake opens a conversation with a fake that plays the acts, after the
// usual start unless bare.
func openFake(t *testing.T, bare bool, session string, acts ...act) *faked {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return openFakeAt(t, self, bare, session, acts...)
}

// openFakeAt is openFake with a program that runs the fake.
func openFakeAt(t *testing.T, path string, bare bool, session string, acts ...act) *faked {
	t.Helper()
	return openFakeFor(t, 300*time.Millisecond, path, bare, session, acts...)
}

// openFakeFor is openFakeAt with the time that a canceled turn has.
func openFakeFor(t *testing.T, grace time.Duration, path string, bare bool, session string, acts ...act) *faked {
	t.Helper()
	f := &faked{script: filepath.Join(t.TempDir(), "script"), home: t.TempDir()}
	script := acts
	if !bare {
		script = append(append([]act(nil), ready...), acts...)
	}
	f.write(t, script)
	children := backends.NewChildren(backends.ChildrenOptions{})
	b := claudecode.New(&claudecode.Options{
		Path: path, Home: f.home, Children: children, Logger: slog.New(&f.logged),
		Getenv: env(map[string]string{"ANTHROPIC_API_KEY": "sk-secret-of-the-test", "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}),
	})
	f.backend = b
	if session != "" {
		keepSession(t, f.home, session)
	}
	var err error
	cfg := f.config(t, backends.Session{ID: session})
	cfg.Grace = grace
	f.Conversation, err = b.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
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

// config is that of a conversation with the fake.
func (f *faked) config(t *testing.T, s backends.Session) backends.Config {
	return backends.Config{
		ID: "01TESTTESTTESTTESTTESTTEST", Dir: t.TempDir(), Session: s, AddDirs: []string{"/an/added/folder"},
		Env: map[string]string{"CLAUDECODE_TEST_ROLE": "fake", "FAKE_SCRIPT": f.script, "CLAUDE_CONFIG_DIR": "/not/this"},
		Save: func(s backends.Session) error {
			if f.save != nil {
				return f.save()
			}
			f.saved = append(f.saved, s)
			return nil
		},
		Stray: func(events.Event) { f.strays.Add(1) },
	}
}

// keepSession makes claude's file of a session.
func keepSession(t *testing.T, home, session string) {
	t.Helper()
	dir := filepath.Join(home, "claude", "projects", "-tmp")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, session+".jsonl"), []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

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

// launch is how a fake was started.
type launch struct {
	Args []string
	Env  []string
	Key  string
}

func (f *faked) launches(t *testing.T) []launch {
	t.Helper()
	raw, err := os.ReadFile(f.script + ".launches")
	if err != nil {
		t.Fatal(err)
	}
	var out []launch
	for _, l := range strings.Split(strings.TrimSpace(string(raw)), "\n") {
		var x launch
		if err := json.Unmarshal([]byte(l), &x); err != nil {
			t.Fatal(err)
		}
		out = append(out, x)
	}
	return out
}
