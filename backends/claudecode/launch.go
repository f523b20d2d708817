package claudecode

import (
	"encoding/json"
	"strconv"
	"strings"

	"innerd/backends"
	"innerd/backends/internal/told"
)

// launch is what claude can be told at its start only. Two turns of equal
// launches share a process; another launch takes a new one, which resumes the
// session. That goes for the model too: claude can be told a new one while it
// runs, but then asks the provider whether it exists, which costs a request,
// and writes the change into the conversation. A new process costs 0.3 s.
type launch struct {
	system   string
	model    string
	denied   string // tools of claude's own that are off
	maxTurns int
	maxCost  float64 // USD, of all that the process does
	noTools  bool    // of its own
	schema   string
}

// Tools that are off: those that start turns by themselves, after the run is
// over; those that talk to other conversations; those that wait for a user; and
// those that leave the directory that the host chose.
var neverTools = []string{
	"CronCreate", "CronDelete", "CronList", "ScheduleWakeup", "Monitor", "Workflow",
	"SendMessage", "ListAgents", "EnterPlanMode", "ExitPlanMode", "EnterWorktree", "ExitWorktree",
}

const toolAsk = "AskUserQuestion"

// nativeTools are claude's own, so that one of the host's with such a name can
// take its place. Agent is called Task in some places.
var nativeTools = []string{
	"Agent", "Task", "Bash", "Edit", "Glob", "Grep", "NotebookEdit", "Read",
	"ReportFindings", "Skill", "TaskStop", "TodoWrite", "ToolSearch", "WebFetch", "WebSearch", "Write",
}

func launchOf(s *backends.Settings, model string) launch {
	denied := append([]string(nil), neverTools...)
	if !s.Interactive {
		denied = append(denied, toolAsk)
	}
	host := make(map[string]bool, len(s.Tools))
	for _, t := range s.Tools {
		host[t.Name] = true
	}
	for _, n := range nativeTools {
		if host[n] {
			denied = append(denied, n)
		}
	}
	pick, _ := told.ChoiceOf(s.ToolChoice)
	return launch{
		system: s.System, model: model, denied: strings.Join(denied, ","),
		maxTurns: s.MaxTurns, maxCost: s.MaxCost, noTools: pick.Mode == told.None, schema: string(given(s.Schema)),
	}
}

// args is the command line. Lists stand behind "=": without it claude takes
// what follows for a part of them.
func (l *launch) args(session string, resume bool, forkOf string, addDirs []string) []string {
	args := []string{
		"-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose", "--include-partial-messages",
		"--setting-sources", "", "--strict-mcp-config", // a repository decides nothing
		"--permission-prompt-tool", "stdio", "--allowedTools=mcp__" + serverName,
		"--system-prompt-snapshot", "off", // or a resumed session keeps its old system text
		"--forward-subagent-text",
		"--disallowedTools=" + l.denied,
	}
	switch {
	case resume:
		args = append(args, "--resume", session)
	case forkOf != "":
		args = append(args, "--resume", forkOf, "--fork-session", "--session-id", session)
	default:
		args = append(args, "--session-id", session)
	}
	if l.model != "" {
		args = append(args, "--model", l.model)
	}
	if l.maxTurns > 0 {
		args = append(args, "--max-turns", strconv.Itoa(l.maxTurns))
	}
	if l.maxCost > 0 {
		args = append(args, "--max-budget-usd", strconv.FormatFloat(l.maxCost, 'f', -1, 64))
	}
	if l.noTools {
		args = append(args, "--tools=")
	}
	if l.schema != "" {
		args = append(args, "--json-schema", l.schema)
	}
	for _, d := range addDirs {
		args = append(args, "--add-dir="+d)
	}
	return args
}

// environ is what claude's environment has beside what agents inherit. It wins
// over what a request adds, which may not change how claude is driven.
func (c *conversation) environ(extra map[string]string) (map[string]string, [][]byte) {
	env := map[string]string{}
	for k, v := range extra {
		env[k] = v
	}
	for k, v := range map[string]string{
		"CLAUDE_CONFIG_DIR":                        c.b.configDir(),
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
		"DISABLE_TELEMETRY":                        "1",
		"DISABLE_ERROR_REPORTING":                  "1",
		"DISABLE_AUTOUPDATER":                      "1",
		"CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS":    "1",
		"CLAUDE_CODE_PROVIDER_MANAGED_BY_HOST":     "1", // settings may not move the address
		"CLAUDE_CODE_MAX_RETRIES":                  strconv.Itoa(c.b.retries()),
		"ENABLE_TOOL_SEARCH":                       "false",
	} {
		env[k] = v
	}
	if dir := c.scratch(); dir != "" {
		env["CLAUDE_CODE_TMPDIR"] = dir
	}
	secrets := c.login.environ(env)
	return env, secrets
}

// scratch is the folder for what claude writes beside the session: images that it
// was given, what commands in the background print, its socket. A resumed session
// names them, so that they stay as long as it may be; in /tmp they would stay for
// good. "": there is none, and it uses /tmp.
func (c *conversation) scratch() string {
	if c.cfg.ID == "" {
		return ""
	}
	dir, err := c.b.kept().Folder(c.cfg.ID, "tmp")
	if err != nil {
		c.b.log.Warn("claude has no folder of its own for temporary files", "conversation", c.cfg.ID, "err", err)
		return ""
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

// model chooses: the turn's, if it can be one of this agent's, else the
// configured one, else claude's own default. foreign is one that was refused.
func (l *login) chooseModel(wanted string) (model, foreign string) {
	if wanted == "" || wanted == l.Model {
		return l.Model, ""
	}
	low := strings.ToLower(wanted)
	if strings.Contains(low, "claude") {
		return wanted, ""
	}
	switch strings.TrimSuffix(low, "[1m]") {
	case "opus", "sonnet", "haiku", "fable", "opusplan", "default", "best":
		return wanted, ""
	}
	if l.BaseURL == "" || isAnthropic(l.BaseURL) || otherVendor(low) {
		return l.Model, wanted
	}
	return wanted, "" // a gateway has names of its own
}

func isAnthropic(baseURL string) bool { return strings.Contains(baseURL, "anthropic.com") }

func otherVendor(model string) bool {
	if _, name, ok := strings.Cut(model, "/"); ok {
		model = name
	}
	for _, p := range []string{"gpt", "o1", "o3", "o4", "codex", "gemini", "grok", "mistral", "llama"} {
		if strings.HasPrefix(model, p) {
			return true
		}
	}
	return false
}

// given is a JSON value, nil where it says nothing.
func given(js json.RawMessage) json.RawMessage {
	if string(js) == "null" {
		return nil
	}
	return js
}

func objectOnly(js json.RawMessage) error {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(js, &m); err != nil || m == nil {
		return errNotObject
	}
	return nil
}
