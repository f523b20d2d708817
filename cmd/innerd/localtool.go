package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"time"

	"innerd/host"
)

// maxToolOutput bounds what is kept of a command's output, in bytes.
const maxToolOutput = 16 << 20

var toolName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// commands are those that tools run now.
type commands struct {
	mu   sync.Mutex
	live map[*exec.Cmd]struct{}
}

func (c *commands) start(cmd *exec.Cmd) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	if c.live == nil {
		c.live = map[*exec.Cmd]struct{}{}
	}
	c.live[cmd] = struct{}{}
	return nil
}

func (c *commands) ended(cmd *exec.Cmd) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.live, cmd)
}

// kill ends all of them, and whatever they started, before the process quits:
// none can be started any more.
func (c *commands) kill() {
	c.mu.Lock() // for ever
	for cmd := range c.live {
		_ = cmd.Cancel()
	}
}

// localTools makes tools of NAME=COMMAND and NAME=JSON pairs.
func (a *app) localTools(commands, schemas []string) ([]host.ToolDef, error) {
	byName := map[string]json.RawMessage{}
	for _, s := range schemas {
		name, raw, ok := strings.Cut(s, "=")
		if !ok {
			return nil, fmt.Errorf("--tool-schema %q: must be NAME=JSON", s)
		}
		if !json.Valid([]byte(raw)) {
			return nil, fmt.Errorf("--tool-schema %s: not JSON", name)
		}
		byName[name] = json.RawMessage(raw)
	}
	var tools []host.ToolDef
	seen := map[string]bool{}
	for _, c := range commands {
		name, command, ok := strings.Cut(c, "=")
		switch {
		case !ok || strings.TrimSpace(command) == "":
			return nil, fmt.Errorf("--tool %q: must be NAME=COMMAND", c)
		case !toolName.MatchString(name):
			return nil, fmt.Errorf("--tool %q: a name has 1 to 64 of the characters A-Z a-z 0-9 _ -", name)
		case seen[name]:
			return nil, fmt.Errorf("--tool %s: named twice", name)
		}
		seen[name] = true
		t, err := a.localTool(name, command, byName[name])
		if err != nil {
			return nil, err
		}
		tools = append(tools, t)
		delete(byName, name)
	}
	for name := range byName {
		return nil, fmt.Errorf("--tool-schema %s: there is no --tool of that name", name)
	}
	return tools, nil
}

func (a *app) localTool(name, command string, schema json.RawMessage) (host.ToolDef, error) {
	t := host.ToolDef{Name: name, Schema: schema, Description: "Runs the command `" + command + "` on the user's machine."}
	if schema == nil {
		t.Schema = json.RawMessage(`{"type":"object","properties":{},"additionalProperties":true}`)
	} else {
		var s struct {
			Description string `json:"description"`
		}
		if err := json.Unmarshal(schema, &s); err != nil {
			return t, fmt.Errorf("--tool-schema %s: %w", name, err)
		}
		if s.Description != "" {
			t.Description = s.Description
		}
	}
	t.Run = func(ctx context.Context, arguments json.RawMessage) (host.Result, error) {
		return a.tools.run(ctx, command, arguments)
	}
	return t, nil
}

// run runs a tool's command. Its process group ends with ctx.
func (c *commands) run(ctx context.Context, command string, arguments json.RawMessage) (host.Result, error) {
	cmd := shellCommand(ctx, command)
	cmd.Stdin = bytes.NewReader(append(bytes.Clone(arguments), '\n'))
	var out, errOut bounded
	cmd.Stdout, cmd.Stderr = &out, &errOut
	cmd.WaitDelay = 2 * time.Second // what the command left behind may hold its pipes
	if err := c.start(cmd); err != nil {
		return host.Result{}, err
	}
	err := cmd.Wait()
	c.ended(cmd)
	if ctx.Err() != nil {
		return host.Result{}, context.Cause(ctx)
	}
	if err == nil || (cmd.ProcessState != nil && cmd.ProcessState.Success()) {
		return host.Result{Text: out.String()}, nil
	}
	words := strings.TrimSpace(errOut.String())
	if o := strings.TrimSpace(out.String()); o != "" {
		words = strings.TrimSpace(o + "\n" + words)
	}
	return host.Result{}, errors.New(strings.TrimSpace(err.Error() + ": " + words))
}

// bounded keeps the beginning of what is written to it.
type bounded struct {
	buf bytes.Buffer
	cut int64
}

var _ io.Writer = (*bounded)(nil)

func (b *bounded) Write(p []byte) (int, error) {
	room := max(0, maxToolOutput-b.buf.Len())
	n := min(room, len(p))
	b.buf.Write(p[:n])
	b.cut += int64(len(p) - n)
	return len(p), nil
}

func (b *bounded) String() string {
	if b.cut == 0 {
		return b.buf.String()
	}
	return fmt.Sprintf("%s\n[%d bytes more were cut]", b.buf.String(), b.cut)
}
