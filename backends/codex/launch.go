package codex

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"strings"

	"innerd/backends"
)

// args is the command line of a process: what holds for all its threads. No
// secret stands in it. What a repository, a user's own settings or the vendor
// could switch on is switched off: plugins and apps, telemetry and update
// checks, hooks, skills, goals (which start turns by themselves), AGENTS.md
// (innerd reads project instructions itself).
func args() []string {
	settings := []string{
		"analytics.enabled=false", "feedback.enabled=false", "check_for_update_on_startup=false",
		"project_doc_max_bytes=0", "skills={include_instructions=false,bundled={enabled=false}}",
		"features.plugins=false", "features.apps=false", "features.hooks=false", "features.goals=false",
		"features.api_key_model_discovery=false", // a request to the provider for its models
		"features.tool_suggest=false", "features.skill_search=false", "features.image_generation=false",
		"features.shell_snapshot=false",               // a login shell at each thread's start
		"features.unbounded_connection_retries=false", // a refused connection is asked for ever otherwise
		"features.default_mode_request_user_input=true",
		"suppress_unstable_features_warning=true",
	}
	out := []string{"app-server"}
	for _, s := range settings {
		out = append(out, "-c", s)
	}
	return out
}

// setup is what a thread is told when it is loaded. Two turns of equal setups
// go on in it; another setup loads it anew, from its file.
type setup struct {
	tools  string // as JSON
	system string
	view   bool
	search string
	mcp    bool
}

func (c *conversation) setupOf(s *backends.Settings, ts *toolset, o options) setup {
	unasked := s.Permission != backends.PermissionAsk && s.Permission != backends.PermissionDeny
	w := setup{view: unasked, search: o.WebSearch}
	if o.WebSearch == "" && !unasked {
		w.search = "disabled"
	}
	w.mcp = o.Tools == "mcp" && c.cfg.MCP != nil
	notes := ts.renamed()
	if !w.mcp {
		raw, _ := json.Marshal(ts.dynamic()) // cannot fail: schemas were mended
		w.tools = string(raw)
		notes += ts.inPrograms()
	}
	w.system = systemText(s.System, notes)
	return w
}

// The tags that our part of a thread's instructions stands in, so that it can
// be found again in the thread's file.
const (
	openTag  = "<host_instructions>"
	closeTag = "</host_instructions>"
)

const ownText = "You are driven by a host program, not by a person at a terminal. " +
	"A message that begins with [host] comes from that program."

// systemText is our part of a thread's instructions: the host's own text behind
// ours and notes.
func systemText(system, notes string) string {
	text := ownText + notes
	if system != "" {
		text += "\n\n" + strings.ReplaceAll(system, closeTag, "</host-instructions>")
	}
	return openTag + "\n" + text + "\n" + closeTag
}

// params are those of thread/start and thread/resume.
func (c *conversation) params(s *server, w setup, model string) threadParams {
	dir := resolved(c.cfg.Dir)
	p := threadParams{
		Cwd: dir, Approval: "untrusted", Sandbox: "danger-full-access", Model: model,
		Developer: w.system, Config: c.threadConfig(s, w, dir),
	}
	if len(c.cfg.AddDirs) > 0 {
		p.Roots = append([]string{dir}, c.cfg.AddDirs...)
	}
	return p
}

// threadConfig is the part of codex's configuration that each thread has for
// itself, its key among it.
func (c *conversation) threadConfig(s *server, w setup, dir string) map[string]any {
	untrusted := map[string]any{}
	for _, d := range append([]string{c.cfg.Dir, dir}, c.cfg.AddDirs...) {
		for ; ; d = filepath.Dir(d) { // its repository may begin further up
			untrusted[d] = map[string]any{"trust_level": "untrusted"}
			if filepath.Dir(d) == d {
				break
			}
		}
	}
	cfg := map[string]any{
		"model_provider":      providerName,
		"model_providers":     map[string]any{providerName: c.login.providerConfig(c.b.retries())},
		"projects":            untrusted,
		"features.view_image": w.view, // a table would take the place of the command line's
		"shell_environment_policy": map[string]any{
			"set": map[string]string{"INNERD_MARK": s.mark() + "." + c.cfg.ID},
		},
	}
	if w.search != "" { // else as the vendor has it
		cfg["web_search"] = w.search
	}
	if w.mcp {
		cfg["mcp_servers"] = map[string]any{mcpServer: map[string]any{
			"url": c.cfg.MCP.URL, "http_headers": map[string]string{"Authorization": "Bearer " + c.cfg.MCP.Token},
			"required": true, "supports_parallel_tool_calls": true, "tool_timeout_sec": mcpTimeout,
			"default_tools_approval_mode": "approve",
		}}
	}
	return cfg
}

// retryLog is the part of codex that logs how long it waits: see untilWhen.
const retryLog = "codex_core::responses_retry"

const (
	providerName = "innerd"
	mcpServer    = "host"
	mcpTimeout   = 7 * 24 * 3600 // seconds; the run has its own limit
)

// resolved is a path without symbolic links, as codex looks projects up.
func resolved(dir string) string {
	if p, err := filepath.EvalSymlinks(dir); err == nil {
		return p
	}
	return dir
}

func (b *Backend) retries() int {
	switch {
	case b.o.MaxRetries == 0:
		return 3
	case b.o.MaxRetries < 0:
		return 0
	}
	return b.o.MaxRetries
}

// environ is what a process's environment has beside what agents inherit. It
// wins over what a request adds, which may not change how codex is driven.
func (b *Backend) environ(extra map[string]string) map[string]string {
	env := maps.Clone(extra)
	if env == nil {
		env = map[string]string{}
	}
	for _, k := range []string{"OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN", "OPENAI_BASE_URL", "CODEX_SQLITE_HOME"} {
		delete(env, k)
	}
	env["CODEX_HOME"] = b.codexHome()
	env["RUST_LOG"] = "error," + retryLog + "=warn"
	env["LOG_FORMAT"] = "text"
	return env
}

// chooseModel is the turn's, if it can be one of this agent's, else the
// configured one, else codex's own default. foreign is one that was refused.
func (l *login) chooseModel(wanted string) (model, foreign string) {
	if wanted == "" || wanted == l.Model {
		return l.Model, ""
	}
	low := strings.ToLower(wanted)
	if _, name, ok := strings.Cut(low, "/"); ok {
		low = name
	}
	for _, p := range []string{"gpt", "o1", "o3", "o4", "codex", "chatgpt"} {
		if strings.HasPrefix(low, p) {
			return wanted, ""
		}
	}
	if l.BaseURL == "" || strings.Contains(l.BaseURL, "openai.com") {
		return l.Model, wanted
	}
	for _, p := range []string{"claude", "opus", "sonnet", "haiku", "gemini"} {
		if strings.HasPrefix(low, p) {
			return l.Model, wanted
		}
	}
	return wanted, "" // a gateway has names of its own
}

// effortOf is the reasoning effort of a turn; "" is the model's own.
func effortOf(s *backends.Settings) string {
	switch {
	case s.Effort != "" || s.ThinkingTokens <= 0:
		return s.Effort
	case s.ThinkingTokens <= 2<<10:
		return "low"
	case s.ThinkingTokens <= 16<<10:
		return "medium"
	}
	return "high"
}

// dynamicTools is the list as thread/start takes it.
func (w setup) dynamicTools() []dynamicTool {
	var list []dynamicTool
	_ = json.Unmarshal([]byte(w.tools), &list) // it was made by us; "" is none
	return list
}
