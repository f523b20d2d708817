package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"innerd/adapter/api"
	"innerd/host"
)

// runFlags is what `innerd run` was told.
type runFlags struct {
	backend, conversation, model, system, effort, cwd string
	permission, script, options                       string
	tools, schemas                                    []string
	interactive, json, quiet                          bool
	timeout                                           time.Duration
	maxCost                                           float64
	maxTurns, toolLimit                               int
}

func (a *app) runCmd() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [flags] PROMPT|-",
		Short: "Run one turn and stream it to the terminal",
		Long: `Run one turn and stream it: text to stdout, everything else to stderr.

The turn goes to the server of --server, else to the one on this machine's port
18100, else to a private one that lives as long as the turn and keeps its state
apart. The prompt "-" is read from stdin.

Ctrl-C cancels the turn and waits for its end; a second one quits at once.

` + exitHelp,
		Example: `  innerd run "what does this repository do?"
  innerd run -b claude-code -C review "and the tests?"     # goes on with the conversation
  git diff | innerd run -q - > review.md
  innerd run --tool date=date --tool 'disk=df -h "$(jq -r .path)"' \
             --tool-schema 'disk={"type":"object","properties":{"path":{"type":"string"}}}' "how full is /?"
  innerd run --permission ask --interactive "clean this directory up"
  innerd run --json "hello" | jq -r 'select(.type=="assistant.message").data.content'`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.run(cmd, &f, args[0]) },
	}
	fl := cmd.Flags()
	fl.StringVarP(&f.backend, "backend", "b", "", "agent: "+strings.Join(backendNames, ", ")+" (default: the server's) [$INNERD_BACKEND for a private server]")
	fl.StringVarP(&f.conversation, "conversation", "C", "", "conversation to go on with, or to begin")
	fl.StringArrayVar(&f.tools, "tool", nil, "NAME=COMMAND: lend a command to the agent; sh -c COMMAND gets the arguments as JSON on stdin, its stdout is the result (repeatable)")
	fl.StringArrayVar(&f.schemas, "tool-schema", nil, "NAME=JSON: JSON Schema of a tool's arguments; its description is the tool's (repeatable)")
	fl.StringVar(&f.system, "system", "", "text for the agent's system message")
	fl.StringVar(&f.model, "model", "", "model")
	fl.StringVar(&f.effort, "effort", "", "reasoning effort")
	fl.StringVar(&f.cwd, "cwd", "", "the agent's directory (default: this one on a private server, else the server's)")
	fl.StringVar(&f.permission, "permission", "", "what the agent's own tools may do: ask, auto or deny (default: auto)")
	fl.BoolVar(&f.interactive, "interactive", false, "let the agent ask questions")
	fl.DurationVar(&f.timeout, "timeout", 0, "of the turn (default: the server's)")
	fl.Float64Var(&f.maxCost, "max-cost", 0, "end the turn above this many US dollars")
	fl.IntVar(&f.maxTurns, "max-turns", 0, "end the turn after as many model turns")
	fl.IntVar(&f.toolLimit, "tool-call-limit", 0, "end the turn above as many tool calls")
	fl.StringVar(&f.script, "script", "", "simulate: file with a script, or the script itself")
	fl.StringVar(&f.options, "agent-options", "", "JSON object of options that are the agent's own")
	fl.BoolVar(&f.json, "json", false, "print each event as a line of JSON")
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "print only the agent's finished messages")
	addSettings(cmd, clientSettings())
	_ = cmd.RegisterFlagCompletionFunc("backend", cobra.FixedCompletions(backendNames, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("permission", cobra.FixedCompletions(permissionModes, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

var permissionModes = []string{api.PermissionAsk, api.PermissionAuto, api.PermissionDeny}

func (a *app) run(cmd *cobra.Command, f *runFlags, prompt string) error {
	req, err := a.request(f, prompt)
	if err != nil {
		return usageError{err}
	}
	terminal := newTerminal(a)
	if f.interactive && !terminal.there() {
		return usageError{errors.New("--interactive: no terminal is there to ask at; without it the agent decides by itself")}
	}
	ctx := cmd.Context()
	t, err := a.prepare(ctx, cmd, f, req)
	if err != nil {
		return err
	}
	defer t.close()
	interrupts, stop := watchInterrupts()
	defer stop()
	req.Permission, req.Question = terminal.permission, terminal.question
	p := newPrinter(a, f.json, f.quiet)
	terminal.printer = p
	return a.follow(ctx, t.client, p, interrupts, t.client.Stream(ctx, *req), req.Metadata.TaskID)
}

// prepare finds the server and adds to the request what depends on it. An
// interrupt ends it, and nothing was started then.
func (a *app) prepare(ctx context.Context, cmd *cobra.Command, f *runFlags, req *host.Request) (*target, error) {
	ctx, stop := interruptible(ctx)
	defer stop()
	t, err := a.target(ctx, cmd, f)
	if err != nil {
		return nil, err
	}
	if t.private && req.Metadata.Cwd == "" {
		req.Metadata.Cwd, err = os.Getwd()
	}
	var said []api.Message
	if err == nil {
		said, err = past(ctx, t.client, f.conversation)
	}
	if err != nil {
		t.close()
		return nil, err
	}
	req.Messages = append(said, req.Messages...)
	return t, nil
}

// request makes what is sent from the flags.
func (a *app) request(f *runFlags, prompt string) (*host.Request, error) {
	if prompt == "-" {
		raw, err := io.ReadAll(a.in)
		if err != nil {
			return nil, fmt.Errorf("stdin: %w", err)
		}
		prompt = string(raw)
	}
	if strings.TrimSpace(prompt) == "" {
		return nil, errors.New("the prompt is empty")
	}
	req := host.Prompt(f.conversation, prompt)
	m := &req.Metadata
	m.Backend = strings.ReplaceAll(f.backend, "_", "-")
	m.Model, m.System, m.ReasoningEffort = f.model, f.system, f.effort
	m.PermissionMode, m.Interactive = f.permission, f.interactive
	m.TimeoutS, m.MaxCostUSD = f.timeout.Seconds(), f.maxCost
	m.MaxTurns, m.ToolCallLimit = f.maxTurns, f.toolLimit
	m.Source = "cli"
	m.TaskID = newTaskID()
	if f.cwd != "" {
		dir, err := filepath.Abs(f.cwd)
		if err != nil {
			return nil, err
		}
		m.Cwd = dir
	}
	var err error
	if m.AgentOptions, err = agentOptions(f); err != nil {
		return nil, err
	}
	req.Tools, err = a.localTools(f.tools, f.schemas)
	return &req, err
}

// agentOptions joins --agent-options and --script.
func agentOptions(f *runFlags) (json.RawMessage, error) {
	if f.script == "" && f.options == "" {
		return nil, nil
	}
	o := map[string]json.RawMessage{}
	if f.options != "" {
		if err := json.Unmarshal([]byte(f.options), &o); err != nil {
			return nil, fmt.Errorf("--agent-options is not a JSON object: %w", err)
		}
	}
	if f.script != "" {
		raw := []byte(f.script)
		if !strings.HasPrefix(strings.TrimSpace(f.script), "[") {
			var err error
			if raw, err = os.ReadFile(f.script); err != nil {
				return nil, fmt.Errorf("--script: %w", err)
			}
		}
		if !json.Valid(raw) {
			return nil, errors.New("--script is not JSON")
		}
		o["script"] = raw
	}
	return json.Marshal(o)
}

// target is the server a turn goes to.
type target struct {
	client  *host.Client
	private bool
	close   func()
}

// target connects, and starts a private server where none was named and none
// answers.
func (a *app) target(ctx context.Context, cmd *cobra.Command, f *runFlags) (*target, error) {
	c, err := a.connect(ctx, cmd)
	if err == nil {
		return &target{client: c, close: c.CloseIdleConnections}, nil
	}
	if !errors.Is(err, errNoServer) {
		return nil, err
	}
	c, stop, err := a.startPrivate(ctx, f)
	if err != nil {
		return nil, err
	}
	return &target{client: c, private: true, close: func() { c.CloseIdleConnections(); stop() }}, nil
}
