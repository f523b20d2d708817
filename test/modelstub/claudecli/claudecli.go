// Package claudecli drives the real Claude Code CLI over its stdin and stdout,
// for tests and for the recording of transcripts. It is not the backend: it
// keeps every line, translates nothing and answers by small functions.
package claudecli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Options is how the CLI is launched.
type Options struct {
	Path      string // of the binary
	Dir       string // working directory
	Home      string
	ConfigDir string // where it keeps sessions; "": below Home
	BaseURL   string
	Key       string   // goes through a pipe, not the environment
	Args      []string // added to the usual ones
	Env       []string // added, wins over the usual ones
	Host      Host
	Bare      bool // no initialize at all: only user messages go in
}

// Entry is a line of a transcript.
type Entry struct {
	Dir  string          `json:"dir"`  // "in" stdin, "out" stdout, "err" stderr, "cmd" the launch, "exit" the end
	Line json.RawMessage `json:"line"` // the line's own JSON; a string where a line is no JSON
}

// CLI is one running process.
type CLI struct {
	t     testing.TB
	cmd   *exec.Cmd
	stdin io.WriteCloser
	host  Host

	writing sync.Mutex // keeps the order of the transcript that of stdin

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at every new entry, and at the end
	log     []Entry
	seen    int // entries that Await has gone past
	ended   bool
	done    chan struct{}
	answers sync.WaitGroup // goroutines that run functions of the host
	code    int
}

// Args is the launch that the transcripts were recorded with.
func Args(extra ...string) []string {
	return append([]string{
		"-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose", "--include-partial-messages",
		"--setting-sources", "", "--strict-mcp-config", "--permission-prompt-tool", "stdio", "--allowedTools", "mcp__host",
		"--system-prompt-snapshot", "off",
	}, extra...)
}

// Env is the environment of that launch, without what differs by machine.
func Env() []string {
	return []string{
		"CLAUDE_CODE_API_KEY_FILE_DESCRIPTOR=3", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_TELEMETRY=1",
		"DISABLE_ERROR_REPORTING=1", "DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS=1",
		"CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS=1", "CLAUDE_CODE_MAX_RETRIES=3", "CLAUDE_CODE_PROVIDER_MANAGED_BY_HOST=1",
		"ENABLE_TOOL_SEARCH=false",
	}
}

// Start launches the CLI and, unless it is Bare, has it initialized. The
// process ends with the test at the latest.
func Start(t testing.TB, o Options) *CLI {
	t.Helper()
	c := &CLI{t: t, host: o.Host, changed: make(chan struct{}), done: make(chan struct{})}
	args, env := Args(o.Args...), append(Env(), o.Env...)
	c.note("cmd", map[string]any{"args": args, "env": env})
	c.cmd = exec.Command(o.Path, args...) // not by context: cleanup ends the whole group
	c.cmd.Dir = o.Dir
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // as innerd does: the scheduler may weigh sessions against each other
	c.cmd.Env = append([]string{"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "HOME=" + o.Home, "ANTHROPIC_BASE_URL=" + o.BaseURL}, env...)
	if o.ConfigDir != "" {
		c.cmd.Env = append(c.cmd.Env, "CLAUDE_CONFIG_DIR="+o.ConfigDir)
	}
	if err := c.start(o.Key); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.kill)
	if !o.Bare {
		c.Send(map[string]any{"type": "control_request", "request_id": "req_init", "request": c.host.initialize()})
	}
	return c
}

func (c *CLI) start(key string) error {
	var err error
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return err
	}
	keyOut, keyIn, err := os.Pipe()
	if err != nil {
		return err
	}
	defer keyOut.Close() //nolint:errcheck // the child has its own
	c.cmd.ExtraFiles = []*os.File{keyOut}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	stderr, err := c.cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := c.cmd.Start(); err != nil {
		return err
	}
	if _, err := io.WriteString(keyIn, key); err != nil { // fits the pipe
		return err
	}
	if err := keyIn.Close(); err != nil {
		return err
	}
	go c.run(stdout, stderr) // ends with the process; Close and kill wait for it
	return nil
}

// run reads the process to its end.
func (c *CLI) run(stdout, stderr io.Reader) {
	defer close(c.done)
	var wg sync.WaitGroup
	wg.Go(func() { lines(stdout, func(b []byte) { c.read(b) }) })
	wg.Go(func() { lines(stderr, func(b []byte) { c.note("err", string(b)) }) })
	wg.Wait()
	_ = c.cmd.Wait() // the state says it all
	c.answers.Wait()
	c.mu.Lock()
	c.ended, c.code = true, c.cmd.ProcessState.ExitCode()
	c.mu.Unlock()
	c.note("exit", map[string]any{"code": c.code})
}

func lines(r io.Reader, each func([]byte)) {
	br := bufio.NewReader(r) // not a Scanner: lines have no limit
	for {
		b, err := br.ReadBytes('\n')
		if b = bytes.TrimRight(b, "\r\n"); len(b) > 0 {
			each(b)
		}
		if err != nil {
			return
		}
	}
}

// note adds an entry to the transcript.
func (c *CLI) note(dir string, v any) {
	js, raw := v.(json.RawMessage)
	if !raw { // what is raw stays as the CLI wrote it
		var err error
		if js, err = json.Marshal(v); err != nil {
			c.t.Error(err)
			return
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = append(c.log, Entry{dir, js})
	close(c.changed)
	c.changed = make(chan struct{})
}

// read takes a line of stdout and answers it where it asks something.
func (c *CLI) read(b []byte) {
	if !json.Valid(b) {
		c.note("out", string(b))
		return
	}
	c.note("out", json.RawMessage(b))
	var m Control
	if json.Unmarshal(b, &m) == nil && m.Type == "control_request" {
		c.answers.Go(func() { // a function of the host may wait for the test
			if a := c.host.answer(m); a != nil {
				c.Send(map[string]any{"type": "control_response", "response": map[string]any{
					"subtype": "success", "request_id": m.RequestID, "response": a,
				}})
			}
		})
	}
}

// Send writes a line to stdin.
func (c *CLI) Send(v any) {
	js, err := json.Marshal(v)
	if err != nil {
		c.t.Error(err)
		return
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	c.note("in", json.RawMessage(js))
	_, _ = c.stdin.Write(append(js, '\n')) // a process that has ended says so by its exit
}

// Say sends a user message; content is a string or a list of blocks.
func (c *CLI) Say(uuid string, content any) {
	c.Send(map[string]any{
		"type": "user", "message": map[string]any{"role": "user", "content": content},
		"uuid": uuid, "parent_tool_use_id": nil, "session_id": "", "client_composed": true,
	})
}

// Interrupt asks for the end of the turn.
func (c *CLI) Interrupt() {
	c.Send(map[string]any{
		"type": "control_request", "request_id": "int_1",
		"request": map[string]any{"subtype": "interrupt", "cancel_queued": true},
	})
}

// Await gives the next line of stdout whose type, or type/subtype, is kind.
// Lines that it passes are not given again.
func (c *CLI) Await(kind string) json.RawMessage {
	c.t.Helper()
	line, err := c.await(kind)
	if err != nil {
		c.t.Fatalf("waiting for %s: %v\n%s", kind, err, c.tail())
	}
	return line
}

func (c *CLI) await(kind string) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	for {
		c.mu.Lock()
		for c.seen < len(c.log) {
			e := c.log[c.seen]
			c.seen++
			if e.Dir == "out" && slices.Contains(Kinds(e.Line), kind) {
				c.mu.Unlock()
				return e.Line, nil
			}
		}
		ended, changed := c.ended, c.changed
		c.mu.Unlock()
		if ended {
			return nil, errors.New("the process has ended")
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Kinds are the names of a line by which Await finds it: its type, and
// type/subtype, where the subtype of a stream_event is the event's type, and
// of control messages that of the request.
func Kinds(line json.RawMessage) []string {
	var m struct {
		Type, Subtype string
		Event         struct{ Type string }
		Request       struct{ Subtype string }
		Response      struct{ Subtype string }
	}
	if json.Unmarshal(line, &m) != nil {
		return nil
	}
	for _, sub := range []string{m.Subtype, m.Event.Type, m.Request.Subtype, m.Response.Subtype} {
		if sub != "" {
			return []string{m.Type, m.Type + "/" + sub}
		}
	}
	return []string{m.Type}
}

// Close ends stdin and waits for the process. It gives the exit code.
func (c *CLI) Close() int {
	c.t.Helper()
	_ = c.stdin.Close() // it may be gone already
	select {
	case <-c.done:
	case <-time.After(time.Minute):
		c.t.Errorf("the process does not end\n%s", c.tail())
		c.kill()
	}
	return c.code
}

func (c *CLI) kill() {
	_ = c.stdin.Close()
	_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL) // none left is fine
	<-c.done
}

// Log is the transcript so far.
func (c *CLI) Log() []Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.log)
}

// tail is the end of the transcript, for messages.
func (c *CLI) tail() string {
	var sb strings.Builder
	log := c.Log()
	for _, e := range log[max(0, len(log)-12):] {
		fmt.Fprintf(&sb, "%s %.400s\n", e.Dir, e.Line)
	}
	return sb.String()
}
