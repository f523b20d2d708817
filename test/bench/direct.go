package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"innerd/test/agents"
	"innerd/test/modelstub"
	"innerd/test/modelstub/claudecli"
)

// direct is an agent that this command drives itself, as innerd would: the
// limit of what innerd can be.
type direct interface {
	// turn says something and gives when the first delta was there.
	turn(ctx context.Context, i int) (time.Time, error)
	stop()
}

// measured is an agent that is measured through innerd and directly.
type measured struct {
	name, word string
	env        func(pin agents.Pinned, sc *modelstub.Scenario) []string // innerd's
	direct     func(ctx context.Context, dir string, pin agents.Pinned, sc *modelstub.Scenario) (direct, error)
	shared     bool   // many conversations have one process
	tools      []any  // that the host lends
	with       string // says so
}

// withTool is Claude Code with a tool of its host's, for which it has another
// server: what that costs it is not innerd's.
func withTool(m measured) measured {
	m.direct, m.with, m.tools = directClaudeTool, " with a host's tool", []any{object{"name": "lookup", "description": toolDoes, "input_schema": toolTakes}}
	return m
}

var measuredAgents = []measured{
	{
		name: "Claude Code", word: "claude-code", direct: directClaude,
		env: func(pin agents.Pinned, sc *modelstub.Scenario) []string {
			return []string{"INNERD_CLAUDE_CODE_PATH=" + pin.Path, "INNERD_CLAUDE_CODE_API_KEY=" + sc.Key(), "INNERD_CLAUDE_CODE_BASE_URL=" + sc.BaseURL()}
		},
	},
	{
		name: "Codex", word: "codex", direct: directCodex, shared: true,
		env: func(pin agents.Pinned, sc *modelstub.Scenario) []string {
			return []string{"INNERD_CODEX_PATH=" + pin.Path, "INNERD_CODEX_API_KEY=" + sc.Key(), "INNERD_CODEX_BASE_URL=" + sc.V1(), "INNERD_CODEX_MODEL=" + openaiModel}
		},
	},
	{
		name: "Copilot", word: "copilot", direct: directCopilot, shared: true,
		env: func(pin agents.Pinned, sc *modelstub.Scenario) []string {
			return []string{"INNERD_COPILOT_PATH=" + pin.Path, "INNERD_COPILOT_API_KEY=" + sc.Key(), "INNERD_COPILOT_BASE_URL=" + sc.V1(), "INNERD_COPILOT_MODEL=" + openaiModel}
		},
	},
}

const (
	openaiModel = "gpt-5.5"
	hears       = "Say hello."
	says        = "Hello there, this is a short answer."
)

type claudeDirect struct {
	cli *claudecli.CLI
	tb  *standIn
}

// claudeArgs are innerd's beside those of every test.
var claudeArgs = []string{
	"--forward-subagent-text", "--disallowedTools=CronCreate,CronDelete,CronList,ScheduleWakeup,Monitor,Workflow," +
		"SendMessage,ListAgents,EnterPlanMode,ExitPlanMode,EnterWorktree,ExitWorktree,AskUserQuestion",
}

// claudeEnv is innerd's where that of tests is another: background tasks are not
// off, and programs are looked for where innerd's agents look.
func claudeEnv() []string {
	return []string{"CLAUDE_CODE_DISABLE_BACKGROUND_TASKS=", "PATH=" + os.Getenv("PATH")}
}

func directClaude(ctx context.Context, dir string, pin agents.Pinned, sc *modelstub.Scenario) (direct, error) {
	return claudeWith(ctx, dir, pin, sc)
}

// directClaudeTool is directClaude with a tool of its host's.
func directClaudeTool(ctx context.Context, dir string, pin agents.Pinned, sc *modelstub.Scenario) (direct, error) {
	return claudeWith(ctx, dir, pin, sc, object{
		"name": "lookup", "description": toolDoes, "inputSchema": toolTakes, "annotations": object{"readOnlyHint": true},
	})
}

func claudeWith(ctx context.Context, dir string, pin agents.Pinned, sc *modelstub.Scenario, tools ...object) (d direct, err error) {
	defer recovered(&err)
	tb := &standIn{ctx: ctx}
	cli := claudecli.Start(tb, claudecli.Options{
		Path: pin.Path, Dir: workspace(dir), Home: dir, ConfigDir: filepath.Join(dir, "claude"), BaseURL: sc.BaseURL(), Key: sc.Key(),
		Args: claudeArgs, Env: claudeEnv(), Host: claudecli.Host{Tools: tools},
	})
	return &claudeDirect{cli, tb}, nil
}

const toolDoes = "Looks something up."

var toolTakes = object{"type": "object", "properties": object{"what": object{"type": "string"}}}

func (c *claudeDirect) turn(_ context.Context, i int) (at time.Time, err error) {
	defer recovered(&err)
	c.cli.Say(fmt.Sprintf("00000000-0000-4000-8000-%012d", i), []object{{"type": "text", "text": hears}})
	c.cli.Await("stream_event/content_block_delta")
	at = time.Now()
	c.cli.Await("result")
	return at, nil
}

func (c *claudeDirect) stop() { c.tb.cleanup() }

type codexDirect struct {
	*pipes
	thread string
}

func directCodex(ctx context.Context, dir string, pin agents.Pinned, sc *modelstub.Scenario) (direct, error) {
	args := []string{"app-server"}
	for _, s := range []string{
		"analytics.enabled=false", "feedback.enabled=false", "check_for_update_on_startup=false", "project_doc_max_bytes=0",
		"skills={include_instructions=false,bundled={enabled=false}}", "features.plugins=false", "features.apps=false", "features.hooks=false",
		"features.goals=false", "features.api_key_model_discovery=false", "features.tool_suggest=false", "features.skill_search=false", "features.image_generation=false", "features.shell_snapshot=false",
		"features.unbounded_connection_retries=false", "features.default_mode_request_user_input=true", "suppress_unstable_features_warning=true",
	} {
		args = append(args, "-c", s)
	}
	p, err := startPipes(ctx, false, dir, []string{"CODEX_HOME=" + dir, "RUST_LOG=error,codex_core::responses_retry=warn", "LOG_FORMAT=text"}, pin.Path, args...)
	if err != nil {
		return nil, err
	}
	c := &codexDirect{pipes: p}
	if err := c.begin(ctx, dir, sc); err != nil {
		p.stop()
		return nil, err
	}
	return c, nil
}

type object = map[string]any

func (c *codexDirect) begin(ctx context.Context, dir string, sc *modelstub.Scenario) error {
	_, err := c.call(ctx, "initialize", object{
		"clientInfo": object{"name": "bench", "version": "1"}, "capabilities": object{"experimentalApi": true},
	})
	if err != nil {
		return err
	}
	if err := c.send(object{"method": "initialized"}); err != nil {
		return err
	}
	raw, err := c.call(ctx, "thread/start", object{
		"cwd": workspace(dir), "approvalPolicy": "untrusted", "sandbox": "danger-full-access", "model": openaiModel, "developerInstructions": "Be brief.",
		"config": object{
			"model_provider": "bench", "web_search": "live", "features.view_image": true, "projects": object{workspace(dir): object{"trust_level": "untrusted"}},
			"model_providers": object{"bench": object{
				"name": "bench", "wire_api": "responses", "base_url": sc.V1(), "experimental_bearer_token": sc.Key(), "supports_websockets": false,
			}},
		},
	})
	var r struct{ Thread struct{ ID string } }
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	c.thread = r.Thread.ID
	return err
}

func (c *codexDirect) turn(ctx context.Context, _ int) (time.Time, error) {
	c.last++
	err := c.send(object{"id": c.last, "method": "turn/start", "params": object{
		"threadId": c.thread, "input": []any{object{"type": "text", "text": hears}}, "model": openaiModel, "summary": "auto",
	}})
	if err != nil {
		return time.Time{}, err
	}
	first, err := c.until(ctx, func(n note) bool { return n.Method == "item/agentMessage/delta" })
	if err != nil {
		return time.Time{}, err
	}
	_, err = c.until(ctx, func(n note) bool { return n.Method == "turn/completed" })
	return first.at, err
}

type copilotDirect struct {
	*pipes
	session string
}

func directCopilot(ctx context.Context, dir string, pin agents.Pinned, sc *modelstub.Scenario) (direct, error) {
	p, err := startPipes(ctx, true, dir, []string{"COPILOT_HOME=" + dir, "COPILOT_PKG_CACHE_HOME=" + pin.PkgCache, "COPILOT_DISABLE_KEYTAR=1"},
		pin.Path, "--headless", "--no-auto-update", "--stdio", "--log-level", "warning", "--no-auto-login")
	if err != nil {
		return nil, err
	}
	c := &copilotDirect{p, fmt.Sprintf("bench-%d", time.Now().UnixNano())}
	_, err = c.call(ctx, "connect", object{"supportedTaskKinds": []string{"agent", "client", "shell"}})
	if err == nil {
		_, err = c.call(ctx, "session.create", object{
			"sessionId": c.session, "clientName": "bench", "model": openaiModel, "tools": []any{}, "toolFilterPrecedence": "excluded", "requestPermission": true,
			"requestUserInput": false, "hooks": true, "workingDirectory": workspace(dir), "streaming": true, "includeSubAgentStreamingEvents": true, "envValueMode": "direct",
			"largeOutput": object{"enabled": true, "outputDir": filepath.Join(dir, "output")}, "toolSearch": object{"enabled": false}, "memory": object{"enabled": false},
			"enableConfigDiscovery": false, "skipCustomInstructions": true, "enableOnDemandInstructionDiscovery": false, "enableFileHooks": false,
			"enableHostGitOperations": false, "enableSessionStore": false, "enableSkills": false, "enableSessionTelemetry": false, "skipEmbeddingRetrieval": true,
			"embeddingCacheStorage": "in-memory", "customAgentsLocalOnly": true, "coauthorEnabled": false, "manageScheduleEnabled": false,
			"isExperimentalMode": false, "mcpOAuthTokenStorage": "in-memory", "continuePendingWork": false,
			"excludedTools":     []string{"builtin:semantic_code_search"},
			"modelCapabilities": object{"supports": object{"vision": true}, "limits": object{"vision": object{"max_prompt_images": 50}}},
			"provider":          object{"type": "openai", "wireApi": "completions", "baseUrl": sc.V1(), "apiKey": sc.Key()},
		})
	}
	if err != nil {
		p.stop()
		return nil, err
	}
	return c, nil
}

func (c *copilotDirect) turn(ctx context.Context, _ int) (time.Time, error) {
	c.last++
	err := c.send(object{"id": c.last, "method": "session.send", "params": object{"sessionId": c.session, "prompt": hears}})
	if err != nil {
		return time.Time{}, err
	}
	// The least that any client must do: look at the type.
	event := func(kind string) func(note) bool {
		kind = `"type":"` + kind + `"`
		return func(n note) bool { return n.Method == "session.event" && strings.Contains(string(n.Params), kind) }
	}
	first, err := c.until(ctx, event("assistant.message_delta"))
	if err != nil {
		return time.Time{}, err
	}
	_, err = c.until(ctx, event("session.idle"))
	return first.at, err
}

// folder is a new one for an agent that is driven directly.
func (b *bench) folder() (string, error) { return b.withWorkspace("direct-") }

// withWorkspace makes a folder in which an agent has one to work in. What is
// kept of the agent, and innerd's state, lie beside that: agents watch the folder
// they work in, and would be woken by each file that is written there.
func (b *bench) withWorkspace(name string) (string, error) {
	dir, err := os.MkdirTemp(b.dir, name)
	if err != nil {
		return "", err
	}
	return dir, os.Mkdir(workspace(dir), 0o700)
}

func workspace(dir string) string { return filepath.Join(dir, "work") }
