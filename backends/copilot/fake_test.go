package copilot_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
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

// act is one thing the fake copilot does. Texts may hold {{sid}}, the session
// of the last message that named one, and {{id}}, the id of the last send.
type act struct {
	Expect string // reads messages up to one that holds this; it is not answered
	Answer string // answers that one with a result
	Refuse string // or with an error
	Event  string // prints an event of the session
	Other  string // session of the next events; "" is that of the last message
	Raw    string // prints bytes
	Slow   bool   // prints what follows in three pieces
	Stderr string
	Exit   *int
	Hang   bool   // reads on and answers nothing
	Gate   string // waits until there is such a file
	Stays  string // does not end with its input; "TERM": nor when it is told to, nor do its children
}

// What the fake answers by itself unless an act expects it.
var usual = map[string]string{
	"connect":                             `{"ok":true,"protocolVersion":3,"version":"` + copilot.Version + `"}`,
	"ping":                                `{"message":"pong"}`,
	"session.create":                      `{}`,
	"session.resume":                      `{}`,
	"session.detach":                      `{"success":true}`,
	"sessions.save":                       `{}`,
	"session.tasks.list":                  `{"tasks":[]}`,
	"session.tasks.cancel":                `{"cancelled":true}`,
	"session.model.setReasoningEffort":    `{}`,
	"session.abort":                       `{"success":true}`,
	"session.plan.readSqlTodos":           `{"rows":[{"id":"a","title":"Do it","status":"in_progress"}]}`,
	"session.tools.handlePendingToolCall": `{"success":true}`,
	"session.permissions.handlePendingPermissionRequest": `{"success":true}`,
}

func exit(code int) *int { return &code }

// send takes an input and begins with it, as the real one does.
func send(id string) []act {
	return []act{
		{Expect: `"method":"session.send"`},
		{Answer: `{"messageId":"` + id + `"}`},
		{Event: `{"type":"user.message","data":{"messageId":"` + id + `","content":"x"}}`},
		{Event: `{"type":"assistant.turn_start","data":{"turnId":"0"}}`},
	}
}

// say is a whole answer of the model, without deltas.
func say(text string) act {
	return act{Event: fmt.Sprintf(`{"type":"assistant.message","data":{"messageId":"m-%s","content":%q,"model":"fake"}}`, text, text)}
}

// stop is the end of a turn.
var stop = []act{{Event: `{"type":"assistant.idle","data":{}}`}, {Event: `{"type":"session.idle","data":{}}`}}

const used = `{"type":"assistant.usage","data":{"inputTokens":10,"outputTokens":2,"cost":0.33,"finishReason":"stop","model":"fake"}}`

func acts(parts ...[]act) []act { return slices.Concat(parts...) }

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
	in, err := os.OpenFile(os.Getenv("FAKE_SCRIPT")+".in", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return 98
	}
	p := &player{in: bufio.NewReader(os.Stdin), log: in}
	return p.play(script)
}

// dumpLaunch leaves how the fake was started where the test finds it.
func dumpLaunch() {
	b, _ := json.Marshal(map[string]any{"args": os.Args[1:], "env": os.Environ()})
	f, err := os.OpenFile(os.Getenv("FAKE_SCRIPT")+".launches", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, _ = f.Write(append(b, '\n'))
		_ = f.Close()
	}
}

type player struct {
	in    *bufio.Reader
	log   io.Writer
	id    json.RawMessage // of the message that was expected
	sid   string
	other string
	slow  bool
	stays bool
}

type inbound struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		SessionID string `json:"sessionId"`
	} `json:"params"`
}

func (p *player) play(script []act) int {
	for _, a := range script {
		switch {
		case a.Expect != "":
			if !p.expect(a.Expect) {
				fmt.Fprintln(os.Stderr, "fake: never came:", a.Expect)
				return 97
			}
		case a.Answer != "":
			p.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, p.id, a.Answer))
		case a.Refuse != "":
			p.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":%q}}`, p.id, a.Refuse))
		case a.Event != "":
			sid := p.sid
			if p.other != "" {
				sid = p.other
			}
			p.write(`{"jsonrpc":"2.0","method":"session.event","params":{"sessionId":"` + sid + `","event":` + a.Event + `}}`)
		case a.Other != "":
			p.other = a.Other
		case a.Raw != "":
			fmt.Print(a.Raw)
		case a.Slow:
			p.slow = true
		case a.Stderr != "":
			fmt.Fprintln(os.Stderr, a.Stderr)
		case a.Exit != nil:
			return *a.Exit
		case a.Gate != "":
			for !exists(a.Gate) {
				time.Sleep(5 * time.Millisecond)
			}
		case a.Stays != "":
			p.stays = true
			if err := stay(a.Stays == "TERM"); err != nil {
				fmt.Fprintln(os.Stderr, "fake:", err)
				return 98
			}
		case a.Hang:
			_, _ = io.Copy(io.Discard, p.in)
			select {}
		}
	}
	p.expect("\x00") // never comes: the usual until the end
	for p.stays {
		time.Sleep(time.Hour)
	}
	return 0
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func frame(body string) string { return fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body) }

func (p *player) write(body string) {
	frame := frame(body)
	if !p.slow {
		fmt.Print(frame)
		return
	}
	for i := range 3 {
		fmt.Print(frame[i*len(frame)/3 : (i+1)*len(frame)/3])
		time.Sleep(5 * time.Millisecond)
	}
}

// expect answers as usual up to a message that holds want.
func (p *player) expect(want string) bool {
	for {
		body := readFrame(p.in)
		if body == nil {
			return false
		}
		_, _ = p.log.Write(append(body, '\n'))
		var m inbound
		_ = json.Unmarshal(body, &m)
		if m.Params.SessionID != "" {
			p.sid = m.Params.SessionID
		}
		if strings.Contains(string(body), want) {
			p.id = m.ID
			return true
		}
		if answer, ok := usual[m.Method]; ok && len(m.ID) > 0 {
			p.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, answer))
		}
	}
}

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
