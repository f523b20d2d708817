package copilot

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"innerd/backends"
	"innerd/backends/internal/rpc"
	"innerd/backends/internal/told"
	"innerd/events"
)

// unknown is what a session was last told, where that cannot be known.
const unknown = "unknown"

// ready gives a process in which the session is open with these settings. A
// session that is open takes new ones by being resumed, which keeps its
// history and costs a few hundredths of a second. Nothing is emitted before:
// it may turn out that copilot has lost the session.
func (c *conversation) ready(ctx context.Context, s *backends.Settings) (*process, []events.Status, error) {
	p, err := c.process(ctx)
	if err != nil {
		return nil, nil, err
	}
	params, notices := c.params(s)
	raw, err := json.Marshal(params)
	if err != nil {
		return nil, nil, &backends.Error{Type: events.ErrInvalidRequest, Message: "the tools can't be given to copilot: " + err.Error()}
	}
	if string(raw) == c.applied {
		return p, notices, nil
	}
	if err := c.open(ctx, p, &params); err != nil {
		if c.applied != "" { // it is still open; whether it took these settings, nobody knows
			c.applied, c.effort = unknown, unknown
		}
		return nil, nil, err
	}
	// With the id, which a new session has got meanwhile.
	if raw, err = json.Marshal(params); err == nil {
		c.applied = string(raw)
	}
	return p, notices, nil
}

// open begins the session, or resumes it with other settings. The id is saved
// before: from here on copilot may know it.
func (c *conversation) open(ctx context.Context, p *process, params *sessionParams) error {
	method := "session.resume"
	if !c.begun {
		method = "session.create"
		c.session = newID()
		params.SessionID = c.session
		params.LargeOutput["outputDir"] = c.outputDir()
	}
	if err := c.save(); err != nil {
		return err
	}
	c.have(c.session)
	_ = c.b.o.Children.MkdirAll(c.outputDir()) // without it copilot says so in a result
	p.add(c.session, c)
	var late func(json.RawMessage)
	if id := c.session; c.applied == "" {
		late = func(json.RawMessage) {
			if p.conversation(id) == nil { // nobody has it, or opens it again
				p.tell("session.detach", sessionOnly{id})
			}
		}
	}
	err := c.call(ctx, p, method, params, late)
	c.mu.Lock()
	inUse := c.inUse
	c.mu.Unlock()
	switch {
	case err == nil && inUse && c.applied == "":
		// Two processes would both write it. Our own conversations never have
		// the same session, so it is somebody else's copilot.
		_ = p.call(ctx, detachLimit, "session.detach", sessionOnly{c.session}, nil)
		p.remove(c.session)
		return backends.ErrNewSession
	case err == nil:
		c.begun = true
		return c.resetEffort(ctx, p, method, params.Effort)
	case c.begun && c.applied == "" && noSession(err):
		p.remove(c.session)
		return backends.ErrNewSession
	}
	if c.applied == "" {
		p.remove(c.session)
	}
	return callError(ctx, err, events.ErrInvalidRequest)
}

// resetEffort: a session that is resumed without an effort keeps the one that
// it had.
func (c *conversation) resetEffort(ctx context.Context, p *process, method, effort string) error {
	before := c.effort
	if c.applied == "" && method == "session.resume" {
		before = unknown
	}
	c.effort = effort
	if effort != "" || before == "" {
		return nil
	}
	if err := c.call(ctx, p, "session.model.setReasoningEffort", effortParams{c.session, ""}, nil); err != nil {
		return callError(ctx, err, events.ErrInvalidRequest)
	}
	return nil
}

// noSession: copilot cannot resume a session.
func noSession(err error) bool {
	var refused *rpc.Error
	return errors.As(err, &refused) && (strings.Contains(refused.Message, "Session not found") ||
		strings.Contains(refused.Message, "Failed to load session") || strings.Contains(refused.Message, "corrupt"))
}

var efforts = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}

// params are the settings as a session takes them, and what is to be said of
// those that it does not take.
func (c *conversation) params(s *backends.Settings) (sessionParams, []events.Status) {
	var notices []events.Status
	model, foreign := c.login.chooseModel(s.Model)
	if foreign != "" {
		notices = append(notices, status(events.StateNotice, "the model "+foreign+" is not one of this provider's; using "+orElse(model, "its default")))
	}
	effort := s.Effort
	if effort != "" && !slices.Contains(efforts, effort) {
		notices = append(notices, status(events.StateNotice, "copilot knows no reasoning effort "+effort+"; using its default"))
		effort = ""
	}
	pick, known := told.ChoiceOf(s.ToolChoice)
	if !known {
		notices = append(notices, status(events.StateNotice, "this tool_choice is not known, and is ignored: "+excerpt(string(s.ToolChoice))))
	}
	ts := newToolset(pick.Offered(s.Tools))
	p := sessionParams{
		SessionID: c.session, ClientName: "innerd", Model: model, Effort: effort, Tools: ts.params(),
		FilterPrecedence: "excluded", RequestPermission: true, RequestUserInput: s.Interactive, Hooks: true,
		WorkingDirectory: c.cfg.Dir, AddDirs: c.cfg.AddDirs, Streaming: true, SubAgentStreaming: true, EnvValueMode: "direct",
		LargeOutput: map[string]any{"enabled": true, "outputDir": c.outputDir()}, ToolSearch: map[string]bool{"enabled": false},
		Memory: map[string]bool{"enabled": false}, SkipInstructions: true, SkipEmbedding: true, EmbeddingCache: "in-memory",
		AgentsLocalOnly: true, MCPOAuthStorage: "in-memory", Provider: c.login.config(),
	}
	if pick.Mode == told.None {
		p.AvailableTools = []string{} // null is all of them
	}
	if system := c.system(s.System, pick.Words(ts.listed), ts.renamed()); system != "" {
		p.System = &systemMessage{Mode: "append", Content: system}
	}
	if c.login.github() {
		p.GitHubToken = c.login.key
		return p, notices
	}
	// It asks GitHub, whoever the model's provider is.
	p.ExcludedTools = []string{"builtin:semantic_code_search"}
	// Copilot takes a provider's model for blind and without an effort unless it is told.
	p.Capabilities = &modelCapabilities{
		Supports: supports{Vision: true},
		Limits:   limits{visionLimits{MaxImages: 50, MaxSize: told.MaxImage, Types: []string{"image/png", "image/jpeg", "image/gif", "image/webp"}}},
	}
	if effort != "" {
		yes := true
		p.Capabilities.Supports.Effort = &yes
	}
	return p, notices
}

// system is the host's text with what else is to be told, and what copilot gets
// wrong where it is not let to run git on the repository.
func (c *conversation) system(texts ...string) string {
	parts := slices.DeleteFunc(texts, func(s string) bool { return s == "" })
	if root := gitRoot(c.cfg.Dir); root != "" {
		parts = append(parts, "The working directory is in a git repository, whose root is "+root+".")
	}
	return strings.Join(parts, "\n\n")
}

// gitRoot looks for a repository without running git, which would run what the
// repository's own settings name.
func gitRoot(dir string) string {
	for dir = filepath.Clean(dir); ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			return ""
		}
	}
}

// chooseModel is the turn's model, if it can be one of this provider's, else
// the configured one. foreign is one that was refused.
func (l *login) chooseModel(wanted string) (model, foreign string) {
	fallback := l.model
	if fallback == "" && !l.github() { // copilot would ask any provider for its own default
		fallback = "gpt-5.4"
		if l.provider == providerAnthropic {
			fallback = "claude-sonnet-4.5"
		}
	}
	switch {
	case wanted == "" || wanted == fallback:
		return fallback, ""
	case strings.Contains(l.baseURL, "api.openai.com") && isVendor(wanted, "claude", "gemini", "grok"),
		strings.Contains(l.baseURL, "anthropic.com") && !isVendor(wanted, "claude"):
		return fallback, wanted
	}
	return wanted, "" // a gateway has names of its own, and GitHub has all vendors'
}

func isVendor(model string, prefixes ...string) bool {
	model = strings.ToLower(model)
	if _, name, ok := strings.Cut(model, "/"); ok {
		model = name
	}
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(model, p) })
}
