package api

import (
	"bytes"
	"encoding/json"
	"regexp"
)

// Values of on_busy, permission_mode and background.
const (
	BusyQueue  = "queue"
	BusyReject = "reject"
	BusyCancel = "cancel"

	PermissionAuto = "auto"
	PermissionAsk  = "ask"
	PermissionDeny = "deny"

	BackgroundEnd  = "end"
	BackgroundWait = "wait"
)

// Metadata is how a run shall be done. The zero value of each field means what
// an absent field means.
type Metadata struct {
	// What hosts have always sent; read leniently.
	Model          string          `json:"model,omitempty"`
	ToolCallLimit  int             `json:"tool_call_limit,omitempty"`
	ToolChoice     json.RawMessage `json:"tool_choice,omitempty"`
	ContextReuse   *bool           `json:"context_reuse,omitempty"` // nil: true
	Tools          []Tool          `json:"native_tool_schemas,omitempty"`
	System         string          `json:"system_message,omitempty"`
	Source         string          `json:"source,omitempty"`
	ThinkingTokens int             `json:"thinking_tokens,omitempty"`
	Query          string          `json:"query,omitempty"`
	Context        string          `json:"context,omitempty"`

	// What this server added; a wrong type or word is a *FieldError.
	Backend             string            `json:"backend,omitempty"`
	TaskID              string            `json:"task_id,omitempty"`
	Detach              bool              `json:"detach,omitempty"`
	DetachGraceS        *float64          `json:"detach_grace_s,omitempty"` // seconds; nil: 10
	OnBusy              string            `json:"on_busy,omitempty"`
	TimeoutS            float64           `json:"timeout_s,omitempty"`       // seconds; 0: the backend's default
	InputTimeoutS       float64           `json:"input_timeout_s,omitempty"` // seconds; 0: 300
	PermissionMode      string            `json:"permission_mode,omitempty"`
	Interactive         bool              `json:"interactive,omitempty"`
	Events              Events            `json:"events,omitempty"`
	ResponseFormat      json.RawMessage   `json:"response_format,omitempty"` // JSON Schema, an object
	MaxTurns            int               `json:"max_turns,omitempty"`
	Cwd                 string            `json:"cwd,omitempty"`
	AddDirs             []string          `json:"add_dirs,omitempty"`
	Env                 map[string]string `json:"env,omitempty"`
	ReasoningEffort     string            `json:"reasoning_effort,omitempty"`
	Credentials         *Credentials      `json:"credentials,omitempty"`
	MaxCostUSD          float64           `json:"max_cost_usd,omitempty"`
	Background          string            `json:"background,omitempty"`
	ProjectInstructions *bool             `json:"project_instructions,omitempty"` // nil: true
	AgentOptions        json.RawMessage   `json:"agent_options,omitempty"`        // an object

	// Notes says what decoding left out.
	Notes []string `json:"-"`
}

// Credentials is a key to a model, and where that is. It is never stored.
type Credentials struct {
	APIKey   string `json:"api_key,omitempty"`
	BaseURL  string `json:"base_url,omitempty"`
	Model    string `json:"model,omitempty"`
	Provider string `json:"provider,omitempty"`
}

var taskID = regexp.MustCompile(`^[A-Za-z0-9_-]{8,64}$`)

// ValidTaskID reports whether a host may choose id for a run.
func ValidTaskID(id string) bool { return taskID.MatchString(id) }

// decode reads a metadata object of valid JSON; null and unknown keys are
// nothing.
func (m *Metadata) decode(raw []byte) error {
	*m = Metadata{}
	if absent(raw) {
		return nil
	}
	if kind(raw) != '{' {
		return fieldErr("metadata", "must be an object, not %s", kindName(raw))
	}
	o := members(raw)
	m.decodeLoose(o)
	return m.decodeStrict(o)
}

// UnmarshalJSON reads metadata as DecodeRequest does.
func (m *Metadata) UnmarshalJSON(raw []byte) error {
	if kind(raw) == '{' {
		if err := syntaxError(raw); err != nil {
			return err
		}
	}
	return m.decode(raw)
}

func (m *Metadata) decodeLoose(o map[string]json.RawMessage) {
	m.Model = looseString(o["model"])
	m.ToolCallLimit = looseInt(o["tool_call_limit"])
	if !absent(o["tool_choice"]) {
		m.ToolChoice = bytes.Clone(o["tool_choice"])
	}
	m.ContextReuse = looseBool(o["context_reuse"])
	m.Tools, m.Notes = decodeTools(o["native_tool_schemas"])
	m.System = looseText(o["system_message"])
	m.Source = looseString(o["source"])
	m.ThinkingTokens = looseInt(o["thinking_tokens"])
	m.Query = looseText(o["query"])
	m.Context = looseText(o["context"])
	if k := kind(o["context"]); k == '{' {
		m.Context = string(o["context"])
	}
}

// decodeStrict reads the newer fields; the first fault ends it.
func (m *Metadata) decodeStrict(o map[string]json.RawMessage) error {
	s := strict{fields: o}
	m.Backend = s.string("backend")
	m.TaskID = s.string("task_id")
	if m.TaskID != "" && !ValidTaskID(m.TaskID) || m.TaskID == "" && kind(o["task_id"]) == '"' {
		s.fail("task_id", "must be 8 to 64 of the characters A-Z a-z 0-9 _ -")
	}
	m.Detach = s.bool("detach")
	if !absent(o["detach_grace_s"]) {
		grace := s.number("detach_grace_s")
		m.DetachGraceS = &grace
	}
	m.OnBusy = s.oneOf("on_busy", BusyQueue, BusyReject, BusyCancel)
	m.TimeoutS = s.number("timeout_s")
	m.InputTimeoutS = s.number("input_timeout_s")
	m.PermissionMode = s.oneOf("permission_mode", PermissionAuto, PermissionAsk, PermissionDeny)
	m.Interactive = s.bool("interactive")
	m.Events = s.events("events")
	m.ResponseFormat = s.object("response_format")
	m.MaxTurns = s.count("max_turns")
	m.Cwd = s.string("cwd")
	m.AddDirs = s.strings("add_dirs")
	m.Env = s.env("env")
	m.ReasoningEffort = s.string("reasoning_effort")
	m.Credentials = s.credentials("credentials")
	m.MaxCostUSD = s.number("max_cost_usd")
	m.Background = s.oneOf("background", BackgroundEnd, BackgroundWait)
	if !absent(o["project_instructions"]) {
		use := s.bool("project_instructions")
		m.ProjectInstructions = &use
	}
	m.AgentOptions = s.object("agent_options")
	return s.err
}
