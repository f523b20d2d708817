package codex_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"innerd/backends"
	"innerd/backends/codex"
	"innerd/events"
)

// script is how the fake app-server behaves: for each method the lines that it
// prints, for each call of it in turn; the last ones stand for all further
// calls. Lines may hold {{id}}, that of the call, {{thread}} and {{turn}}. One
// that begins with ! is an order: !exit N, !stderr WORDS, !sleep MS, !deaf
// (nothing is read any more), !slow LINE (in three pieces), !wait TEXT (until
// a line with it was read).
type script map[string][][]string

const (
	done     = `{"id":{{id}},"result":{}}`
	thread   = `{"id":{{id}},"result":{"thread":{"id":"{{thread}}"},"model":"m-1"}}`
	accepted = `{"id":{{id}},"result":{"turn":{"id":"{{turn}}","status":"inProgress"}}}`
	started  = `{"method":"turn/started","params":{"threadId":"{{thread}}","turn":{"id":"{{turn}}"}}}`
	finished = `{"method":"turn/completed","params":{"threadId":"{{thread}}","turn":{"id":"{{turn}}","status":"completed"}}}`
	stopped  = `{"method":"turn/completed","params":{"threadId":"{{thread}}","turn":{"id":"{{turn}}","status":"interrupted"}}}`
)

// said is a message that comes whole.
func said(text string) string {
	return `{"method":"item/completed","params":{"threadId":"{{thread}}","turnId":"{{turn}}","item":{"type":"agentMessage","id":"i1","text":"` + text + `"}}}`
}

func turnFailed(message, info string) string {
	return `{"method":"turn/completed","params":{"threadId":"{{thread}}","turn":{"id":"{{turn}}","status":"failed","error":{"message":"` +
		message + `","codexErrorInfo":` + info + `}}}}`
}

// fake is the body of the fake's process.
func fake() int {
	raw, err := os.ReadFile(os.Getenv("FAKE_SCRIPT"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "fake:", err)
		return 98
	}
	p := &player{calls: map[string]int{}, turn: map[string]int{}}
	if err := json.Unmarshal(raw, &p.script); err != nil {
		fmt.Fprintln(os.Stderr, "fake:", err)
		return 98
	}
	if p.heard, err = os.OpenFile(os.Getenv("FAKE_SCRIPT")+".heard", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err != nil {
		return 98
	}
	dumpLaunch()
	p.in = bufio.NewReader(os.Stdin)
	for {
		line, err := p.in.ReadString('\n')
		if err != nil {
			return 0
		}
		if code, over := p.take(line); over {
			return code
		}
	}
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
	script  script
	in      *bufio.Reader
	heard   *os.File
	calls   map[string]int
	threads int
	turn    map[string]int // by thread
}

func (p *player) take(line string) (code int, over bool) {
	_, _ = p.heard.WriteString(line)
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			ThreadID string `json:"threadId"`
		} `json:"params"`
	}
	if json.Unmarshal([]byte(line), &m) != nil || m.Method == "" {
		return 0, false
	}
	thread := m.Params.ThreadID
	switch m.Method {
	case "thread/start":
		p.threads++
		thread = fmt.Sprintf("00000000-0000-7000-8000-00000000000%d", p.threads)
	case "turn/start":
		p.turn[thread]++
	}
	disk(m.Method, line)
	lines := p.lines(m.Method)
	p.calls[m.Method]++
	fill := strings.NewReplacer("{{id}}", string(m.ID), "{{thread}}", thread, "{{turn}}", fmt.Sprintf("turn-%s-%d", thread, p.turn[thread]))
	for _, l := range lines {
		if code, over := p.do(fill.Replace(l)); over {
			return code, true
		}
	}
	return 0, false
}

// disk does what is asked of files.
func disk(method, line string) {
	var m struct {
		Params struct {
			Path    string   `json:"path"`
			Data    []byte   `json:"dataBase64"`
			Command []string `json:"command"`
		} `json:"params"`
	}
	_ = json.Unmarshal([]byte(line), &m)
	switch method {
	case "fs/writeFile":
		_ = os.WriteFile(m.Params.Path, m.Params.Data, 0o600)
	case "command/exec":
		_ = os.Rename(m.Params.Command[2], m.Params.Command[3])
	}
}

func (p *player) lines(method string) []string {
	all := p.script[method]
	switch {
	case len(all) > 0:
		return all[min(p.calls[method], len(all)-1)]
	case method == "initialized":
		return nil
	case method == "thread/start", method == "thread/resume":
		return []string{thread}
	case method == "turn/interrupt":
		return []string{done, stopped}
	}
	return []string{done}
}

func (p *player) do(line string) (code int, over bool) {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "!exit":
		code, _ = strconv.Atoi(rest)
		return code, true
	case "!stderr":
		fmt.Fprintln(os.Stderr, rest)
	case "!sleep":
		ms, _ := strconv.Atoi(rest)
		time.Sleep(time.Duration(ms) * time.Millisecond)
	case "!gate":
		for {
			if _, err := os.Stat(rest); err == nil {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
	case "!deaf":
		select {}
	case "!slow":
		rest += "\n"
		for i := range 3 {
			fmt.Print(rest[i*len(rest)/3 : (i+1)*len(rest)/3])
			time.Sleep(10 * time.Millisecond)
		}
	case "!wait":
		for {
			heard, err := p.in.ReadString('\n')
			if err != nil {
				return 97, true
			}
			_, _ = p.heard.WriteString(heard)
			if strings.Contains(heard, rest) {
				break
			}
		}
	default:
		fmt.Println(line)
	}
	return 0, false
}

// stage is a backend with fakes.
type stage struct {
	t      *testing.T
	b      *codex.Backend
	home   string
	script string
	dir    string
	strays atomic.Int64

	addDirs []string

	children *backends.Children
}

// getenv makes the backend anew, with this environment.
func (st *stage) getenv(vars map[string]string) {
	st.t.Helper()
	self, err := os.Executable()
	if err != nil {
		st.t.Fatal(err)
	}
	st.b = codex.New(&codex.Options{Path: self, Home: st.home, Children: st.children, Getenv: env(vars)})
}

func (st *stage) config(c *backends.Credential) backends.Config {
	return backends.Config{
		ID: idA, Dir: st.dir, AddDirs: st.addDirs, Grace: 300 * time.Millisecond, Credential: c,
		Env: map[string]string{"CODEX_TEST_ROLE": "fake", "FAKE_SCRIPT": st.script, "CODEX_HOME": "/not/this"},
	}
}

func newStage(t *testing.T, s script) *stage {
	t.Helper()
	st := &stage{t: t, home: t.TempDir(), script: filepath.Join(t.TempDir(), "script"), dir: t.TempDir()}
	st.plays(s)
	children := backends.NewChildren(backends.ChildrenOptions{})
	st.children = children
	st.getenv(map[string]string{"OPENAI_API_KEY": "sk-secret-of-the-test", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := st.b.Close(ctx); err != nil {
			t.Error(err)
		}
		if err := children.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return st
}

// plays gives a script to the fakes that are started from now on.
func (st *stage) plays(s script) {
	st.t.Helper()
	raw, err := json.Marshal(s)
	if err == nil {
		err = os.WriteFile(st.script, raw, 0o600)
	}
	if err != nil {
		st.t.Fatal(err)
	}
}

// open opens a conversation; all of a stage share a process.
func (st *stage) open(id, session string) backends.Conversation {
	st.t.Helper()
	cfg := st.config(nil)
	cfg.ID, cfg.Session = id, backends.Session{ID: session}
	cfg.Stray = func(events.Event) { st.strays.Add(1) }
	c, err := st.b.Open(st.t.Context(), cfg)
	if err != nil {
		st.t.Fatal(err)
	}
	st.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			st.t.Error(err)
		}
	})
	return c
}

// keep makes codex's file of a thread.
func (st *stage) keep(thread, content string) string {
	st.t.Helper()
	dir := filepath.Join(st.home, "codex", "sessions", "2026", "11", "28")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		st.t.Fatal(err)
	}
	path := filepath.Join(dir, "rollout-2026-11-28T01-02-03-"+thread+".jsonl")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		st.t.Fatal(err)
	}
	return path
}

// heard is what the fakes read.
func (st *stage) heard() string {
	raw, _ := os.ReadFile(st.script + ".heard")
	return string(raw)
}

// launch is how the first fake was started.
func (st *stage) launches() []struct{ Args, Env []string } {
	st.t.Helper()
	raw, err := os.ReadFile(st.script + ".launches")
	if err != nil {
		st.t.Fatal(err)
	}
	var out []struct{ Args, Env []string }
	for l := range strings.Lines(string(raw)) {
		var x struct{ Args, Env []string }
		if err := json.Unmarshal([]byte(l), &x); err != nil {
			st.t.Fatal(err)
		}
		out = append(out, x)
	}
	return out
}
