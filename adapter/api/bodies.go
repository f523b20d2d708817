package api

import (
	"encoding/json"
	"fmt"
	"time"

	"innerd/events"
)

// Cancel is the body of /tasks/{id}:cancel.
type Cancel struct {
	Reason string `json:"reason,omitempty"`
}

// Reply is the body of /tasks/{id}:reply: the answer to a question in words.
type Reply struct {
	Text      string          `json:"text"`
	RequestID string          `json:"request_id,omitempty"` // "": the oldest open one
	Metadata  json.RawMessage `json:"metadata,omitempty"`
}

// Answer is the body of /tasks/{id}/requests/{request_id}.
type Answer struct {
	Option   string          `json:"option,omitempty"`  // permission: the id of one of its options
	Message  string          `json:"message,omitempty"` // permission: said to the agent
	Value    json.RawMessage `json:"value,omitempty"`   // question
	Remember bool            `json:"remember,omitempty"`
}

// ToolResult is the body of /tools/{tool_call_id}/result.
type ToolResult struct {
	Result   string          `json:"result"`
	Content  []events.Part   `json:"content,omitempty"` // where given, instead of Result
	IsError  bool            `json:"is_error,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// ToolResultStatus is the answer to it.
type ToolResultStatus struct {
	Status     string `json:"status"` // StatusOK, StatusNotFound
	ToolCallID string `json:"tool_call_id"`
	Duplicate  bool   `json:"duplicate,omitempty"`
}

// Words of ToolResultStatus and Health.
const (
	StatusOK       = "ok"
	StatusNotFound = "not_found"
)

// Health is the answer of /health.
type Health struct {
	Status   string                   `json:"status"`
	Version  string                   `json:"version"`
	Backends map[string]BackendHealth `json:"backends"`
}

// BackendHealth is a backend in Health.
type BackendHealth struct {
	Usable  bool   `json:"usable"`
	Version string `json:"version,omitempty"`
	Why     string `json:"why,omitempty"`
}

// Ready is the answer of /ready.
type Ready struct {
	Ready   bool     `json:"ready"`
	Reasons []string `json:"reasons,omitempty"` // why not
}

// Streams is the answer of /debug/streams.
type Streams struct {
	ActiveStreams map[string]StreamInfo   `json:"active_streams"` // by task id
	StreamCount   int                     `json:"stream_count"`
	ServerUptime  float64                 `json:"server_uptime"` // seconds
	Backends      map[string]BackendDebug `json:"backends"`
	Runs          map[string]RunDebug     `json:"runs"` // the caller's own that are not over, by task id
	Pool          *PoolDebug              `json:"pool,omitempty"`
	Log           *LogDebug               `json:"log,omitempty"`
}

// RunDebug is a run that is not over.
type RunDebug struct {
	Backend        string  `json:"backend"`
	ConversationID string  `json:"conversation_id"`
	State          string  `json:"state"` // queued, working, waiting (for the host)
	ElapsedS       float64 `json:"elapsed_s"`
	LastEventID    int64   `json:"last_event_id"`
	Readers        int     `json:"readers"` // of its log: streams, A2A, push
	Lag            int64   `json:"lag"`     // events that the last of them is behind
	Pending        int     `json:"pending"` // requests that wait for the host
}

// PoolDebug is the agents of a server.
type PoolDebug struct {
	Warm          int `json:"warm"`           // agents that wait for a run
	WarmLimit     int `json:"warm_limit"`     // agents at once, --max-warm
	Starting      int `json:"starting"`       // agents that come up
	StartingLimit int `json:"starting_limit"` // at once, --max-spawns
	Queued        int `json:"queued"`         // runs that wait for another
}

// LogDebug is the log of a server.
type LogDebug struct {
	Runs           int   `json:"runs"`
	Live           int   `json:"live"` // without an end
	Readers        int   `json:"readers"`
	Lag            int64 `json:"lag"` // events that the last of them is behind
	MemoryBytes    int64 `json:"memory_bytes"`
	DiskBytes      int64 `json:"disk_bytes"`
	UnwrittenBytes int64 `json:"unwritten_bytes"`
	WriteErrors    int64 `json:"write_errors"`
	SyncErrors     int64 `json:"sync_errors"`
	Damaged        int64 `json:"damaged"` // events that could not be read any more
	Dropped        int64 `json:"dropped"` // events that nobody saw, because the disk stayed full
	Waiting        int   `json:"waiting"` // runs whose events wait for space
	DiskFull       bool  `json:"disk_full"`
	MemoryOnly     bool  `json:"memory_only"`
}

// BackendDebug is what a server has noticed of a backend.
type BackendDebug struct {
	Breaker Breaker `json:"breaker"`
	// UnknownEvents counts what the agent said and the server did not
	// understand, by the agent's own types.
	UnknownEvents map[string]int64 `json:"unknown_events"`
	Runs          map[string]int   `json:"runs,omitempty"`          // that are not over, by state: queued, working, waiting
	Conversations map[string]int   `json:"conversations,omitempty"` // by state: running, idle, cold
}

// StreamInfo is the readers of one task.
type StreamInfo struct {
	Readers  int     `json:"readers"`
	ElapsedS float64 `json:"elapsed_s"` // of the oldest reader
	Lag      int64   `json:"lag"`       // events that the last one is behind
	StallS   float64 `json:"stall_s"`   // that the most patient one has taken nothing of what is there
}

// Conversation is one memory of an agent.
type Conversation struct {
	ID        string    `json:"id"`
	ContextID string    `json:"context_id"`
	Backend   string    `json:"backend"`
	State     string    `json:"state"` // idle, running, cold
	LastUsed  time.Time `json:"last_used"`
	// Compacting: its agent is shortening its memory.
	Compacting bool `json:"compacting,omitempty"`
}

// Conversations is the answer of /conversations.
type Conversations struct {
	Conversations []Conversation `json:"conversations"`
}

// Body is a Cancel, Steer, Reply, Answer or ToolResult.
type Body interface{ decode(object) error }

// Decode reads a body. A fault is a
// *FieldError, or the error of a body that is not JSON. An empty body is {}.
func Decode(body []byte, v Body) error {
	switch kind(body) {
	case 0:
		return v.decode(nil)
	case '{':
	default:
		if json.Valid(body) {
			return fieldErr("body", "must be an object, not %s", kindName(body))
		}
	}
	var o object
	if err := json.Unmarshal(body, &o); err != nil {
		return err
	}
	return v.decode(o)
}

type object map[string]json.RawMessage

func (o object) string(name string) (string, error) { return optString(name, o[name]) }

// optString is a string, or "" for what is missing or null.
func optString(name string, raw json.RawMessage) (string, error) {
	if absent(raw) {
		return "", nil
	}
	if kind(raw) != '"' {
		return "", fieldErr(name, "must be a string, not %s", kindName(raw))
	}
	return looseString(raw), nil
}

func (o object) bool(name string) (bool, error) {
	raw := o[name]
	if absent(raw) {
		return false, nil
	}
	if kind(raw) != 't' {
		return false, fieldErr(name, "must be true or false, not %s", kindName(raw))
	}
	return raw[0] == 't', nil
}

// present is a raw value, nil where it is missing or null.
func (o object) present(name string) json.RawMessage {
	if absent(o[name]) {
		return nil
	}
	return o[name]
}

func (c *Cancel) decode(o object) (err error) {
	c.Reason, err = o.string("reason")
	return err
}

// decode wants a text, though it may be empty: what was misspelt shall not
// answer a question.
func (r *Reply) decode(o object) (err error) {
	if absent(o["text"]) {
		return fieldErr("text", "is missing")
	}
	if r.Text, err = o.string("text"); err != nil {
		return err
	}
	r.Metadata = o.present("metadata")
	r.RequestID, err = o.string("request_id")
	return err
}

func (a *Answer) decode(o object) (err error) {
	if a.Option, err = o.string("option"); err != nil {
		return err
	}
	if a.Message, err = o.string("message"); err != nil {
		return err
	}
	a.Value = o["value"] // null is an answer
	a.Remember, err = o.bool("remember")
	return err
}

// decode takes any JSON as result, as text, since hosts return what their
// tools return.
func (t *ToolResult) decode(o object) (err error) {
	switch raw := o["result"]; kind(raw) {
	case '{', '[':
		t.Result = string(raw)
	default:
		t.Result = looseString(raw)
	}
	if t.IsError, err = o.bool("is_error"); err != nil {
		return err
	}
	t.Metadata = o.present("metadata")
	t.Content, err = decodeParts(o["content"])
	return err
}

func decodeParts(raw json.RawMessage) ([]events.Part, error) {
	if absent(raw) {
		return nil, nil
	}
	if kind(raw) != '[' {
		return nil, fieldErr("content", "must be a list of parts, not %s", kindName(raw))
	}
	if err := tooMany("content", raw); err != nil {
		return nil, err
	}
	var parts []events.Part
	for i, item := range looseList(raw) {
		field := fmt.Sprintf("content[%d]", i)
		if kind(item) != '{' {
			return nil, fieldErr(field, "must be an object, not %s", kindName(item))
		}
		var p events.Part
		if err := json.Unmarshal(item, &p); err != nil {
			return nil, fieldErr(field, "%v", err)
		}
		if err := checkPart(field, p); err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	return parts, nil
}

func checkPart(field string, p events.Part) error {
	switch p.Type {
	case events.PartText:
		return nil
	case events.PartJSON:
		if len(p.JSON) == 0 {
			return fieldErr(field+".json", "is missing")
		}
		return nil
	case events.PartImage, events.PartAudio, events.PartVideo:
		if p.Data == "" && p.URL == "" {
			return fieldErr(field, "needs data or url")
		}
		return nil
	case events.PartFile:
		if p.Data == "" && p.URL == "" && p.Path == "" && p.Text == "" {
			return fieldErr(field, "needs data, url or path")
		}
		return nil
	}
	return fieldErr(field+".type", "%q is none of text, image, audio, video, file, json", p.Type)
}

// Backend is an agent and whether it can run on the server.
type Backend struct {
	Name         string          `json:"name"`
	Found        bool            `json:"found"` // its program is there
	Usable       bool            `json:"usable"`
	Version      string          `json:"version,omitempty"`
	Pinned       string          `json:"pinned,omitempty"`  // the version the server was tested with
	Warning      string          `json:"warning,omitempty"` // another version than that
	Login        string          `json:"login,omitempty"`   // key, login, none
	Source       string          `json:"source,omitempty"`  // of the key or login that is used: a variable, a folder
	Models       []string        `json:"models,omitempty"`
	Capabilities map[string]bool `json:"capabilities"`
	Why          string          `json:"why,omitempty"`  // why not usable
	Hint         string          `json:"hint,omitempty"` // what to do
	Breaker      *Breaker        `json:"breaker,omitempty"`
}

// Breaker is whether a backend's agents are started at all: after several
// failures in a row they are not, for a while.
type Breaker struct {
	State       string  `json:"state"`                   // closed, open, half-open
	Failures    int     `json:"failures,omitempty"`      // in a row
	RetryAfterS float64 `json:"retry_after_s,omitempty"` // until the next try, while open
	LastError   string  `json:"last_error,omitempty"`
}

// Backends is the answer of /backends.
type Backends struct {
	Backends []Backend `json:"backends"`
}
