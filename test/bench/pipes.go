package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// pipes is an agent that speaks JSON-RPC over its stdin and stdout, driven
// with as little as possible in between. It is used by one goroutine; another
// reads.
type pipes struct {
	cmd     *exec.Cmd
	writing sync.Mutex // of in
	in      io.WriteCloser
	headers bool // Content-Length; else lines
	got     chan note
	last    int
}

// note is a message of the agent's, and when it had been read.
type note struct {
	at     time.Time
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Error  json.RawMessage `json:"error"`
	Result json.RawMessage `json:"result"`
}

func startPipes(ctx context.Context, headers bool, dir string, env []string, path string, args ...string) (*pipes, error) {
	p := &pipes{cmd: exec.CommandContext(ctx, path, args...), headers: headers, got: make(chan note, 1024)}
	p.cmd.Dir, p.cmd.WaitDelay = workspace(dir), 5*time.Second
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "HOME=" + dir}, env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // as innerd does: the scheduler may weigh sessions against each other
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go p.read(bufio.NewReaderSize(out, 1<<16)) // ends with the agent's output
	return p, nil
}

func (p *pipes) read(r *bufio.Reader) {
	defer close(p.got)
	for {
		frame, err := p.frame(r)
		if err != nil {
			return
		}
		n := note{at: time.Now()}
		switch {
		case json.Unmarshal(frame, &n) != nil:
		case n.Method != "" && n.ID != nil: // Copilot asks before each prompt whether a hook minds
			_ = p.send(map[string]any{"id": n.ID, "result": map[string]any{}}) // it ends when it gets none
		default:
			p.got <- n
		}
	}
}

func (p *pipes) frame(r *bufio.Reader) ([]byte, error) {
	if !p.headers {
		return r.ReadBytes('\n')
	}
	size := 0
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return nil, err
		}
		if line = strings.TrimSpace(line); line == "" {
			break
		}
		if v, ok := strings.CutPrefix(line, "Content-Length:"); ok {
			size, _ = strconv.Atoi(strings.TrimSpace(v)) // a broken one ends in no JSON
		}
	}
	frame := make([]byte, size)
	_, err := io.ReadFull(r, frame)
	return frame, err
}

func (p *pipes) send(m map[string]any) error {
	m["jsonrpc"] = "2.0"
	raw, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if p.headers {
		raw = fmt.Appendf(nil, "Content-Length: %d\r\n\r\n%s", len(raw), raw)
	} else {
		raw = append(raw, '\n')
	}
	p.writing.Lock()
	defer p.writing.Unlock()
	_, err = p.in.Write(raw)
	return err
}

var errSilent = errors.New("the agent says no more")

// call sends a request and waits for its answer.
func (p *pipes) call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	p.last++
	id := strconv.Itoa(p.last)
	if err := p.send(map[string]any{"id": p.last, "method": method, "params": params}); err != nil {
		return nil, err
	}
	n, err := p.until(ctx, func(n note) bool { return n.Method == "" && string(n.ID) == id })
	if err == nil && n.Error != nil {
		err = fmt.Errorf("%s: %s", method, n.Error)
	}
	return n.Result, err
}

// until waits for a message. What comes before it is dropped.
func (p *pipes) until(ctx context.Context, is func(note) bool) (note, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errSilent)
	defer cancel()
	for {
		select {
		case n, ok := <-p.got:
			if !ok {
				return n, errSilent
			}
			if is(n) {
				return n, nil
			}
		case <-ctx.Done():
			return note{}, context.Cause(ctx)
		}
	}
}

// stop ends the agent and all that it started.
func (p *pipes) stop() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // it may be gone
	for range p.got {                                     // until its output has ended
	}
	_ = p.cmd.Wait() // how it ends is not what is measured
}
