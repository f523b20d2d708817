package toolbridge

import (
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"innerd/events"
)

// What answers return; test with errors.Is.
var (
	// ErrNotFound: no such request, or not the caller's.
	ErrNotFound = errors.New("no such request")
	// ErrAnswered: the request is answered or closed already.
	ErrAnswered = errors.New("the request is answered or closed")
	// ErrInvalid: the answer does not fit the request, which stays open. The
	// error's text says what is wrong.
	ErrInvalid = errors.New("invalid answer")
)

// Defaults of Options.
const (
	DefaultPermission = 10 * time.Minute
	DefaultQuestion   = 300 * time.Second
	DefaultPing       = 10 * time.Second
)

// Options are a bridge's. The zero value of each field is its default.
type Options struct {
	Permission time.Duration // how long a permission waits, then it is a deny; 10 min
	Question   time.Duration // how long a question waits; 300 s
	Ping       time.Duration // between signs of life on an MCP call that waits; 10 s
	Logger     *slog.Logger  // slog.Default
	Now        func() time.Time
}

// Bridge joins the requests of all runs of a server with the answers of their
// hosts. Its methods may be called at the same time.
type Bridge struct {
	opt Options

	// mu guards what follows, and is never held while logging or waiting.
	mu       sync.Mutex
	sessions map[string]*Session // by run id, open ones
	open     map[string]*Pending // by request id, announced and not resolved
	past     *past               // resolved ones, for duplicates and for 409

	mcp mcpRoad
}

// New makes a bridge. Nothing runs until a session is opened.
func New(o *Options) *Bridge {
	b := &Bridge{
		sessions: map[string]*Session{},
		open:     map[string]*Pending{},
		past:     newPast(pastLimit),
		mcp:      mcpRoad{byConv: map[string]*endpoint{}},
	}
	if o != nil {
		b.opt = *o
	}
	if b.opt.Permission <= 0 {
		b.opt.Permission = DefaultPermission
	}
	if b.opt.Question <= 0 {
		b.opt.Question = DefaultQuestion
	}
	if b.opt.Ping <= 0 {
		b.opt.Ping = DefaultPing
	}
	if b.opt.Logger == nil {
		b.opt.Logger = slog.Default()
	}
	if b.opt.Now == nil {
		b.opt.Now = time.Now
	}
	return b
}

// ToolSpec is a tool that the host lends.
type ToolSpec struct {
	Name        string
	Description string
	Schema      json.RawMessage // JSON Schema of the arguments; one that does not compile is not checked
	// Parallel false, or a schema that says "parallel": false: the host never
	// sees two open calls of this tool.
	Parallel bool
}

// SessionConfig is what a run gives its bridge.
//
// The callbacks are called one at a time and in order. Of the session's
// methods they may call Pending alone.
type SessionConfig struct {
	RunID, Owner, ConversationID string
	Backend                      string // for lines of the log

	// Permission is auto (also ""), ask or deny. Bridged tools are never asked
	// about: backends make no permission request for them.
	Permission string
	// Interactive says that a user is there for questions.
	Interactive bool

	ToolTimeout  time.Duration // of a tool call; 0: none of its own, the turn's
	InputTimeout time.Duration // of a question; 0: the bridge's default
	Memory       *Memory       // the conversation's; nil: nothing is remembered
	Tools        []ToolSpec

	// Admit says why the run may make no such request any more, "" if it may; a
	// call that is refused is not announced. It is asked on both roads. Nil: it
	// always may.
	Admit func(events.RequestKind) string
	// Log appends to the run's log and returns when it has.
	Log func(events.Data)
	// OnOpen and OnClose say that a request was announced or resolved, and how
	// many of this session, of every kind, are open now.
	OnOpen, OnClose func(kind events.RequestKind, open int)
	// OnExpired says that a question went unanswered; it is called before the
	// agent hears of it.
	OnExpired func()
}

// PendingInfo is an open request as a task shows it.
type PendingInfo struct {
	Kind    events.RequestKind
	ID      string
	Tool    string
	Input   json.RawMessage
	Message string
	Schema  json.RawMessage
	Since   time.Time
}

// Open begins a run's session, whose tools become those of the conversation's
// MCP server. The run closes it before its terminal event.
func (b *Bridge) Open(c SessionConfig) *Session {
	s := &Session{b: b, c: c, tools: compileTools(c.Tools)}
	b.mu.Lock()
	b.sessions[c.RunID] = s
	b.mu.Unlock()
	if e := b.mcp.get(c.ConversationID); e != nil {
		e.setTools(append([]ToolSpec{}, c.Tools...)) // a run without tools has none, not the last one's
	}
	return s
}
