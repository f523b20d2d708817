package simulate

import (
	"context"
	"encoding/json"
	"time"

	"innerd/backends"
	"innerd/events"
)

// Name is what a host chooses this agent by.
const Name = "simulate"

// DefaultModel is the model that usage names when the turn names none of ours.
const DefaultModel = "simulate-1"

// Options is how the agent shall be. The zero value echoes, keeps sessions in
// memory and crashes through /bin/sh.
type Options struct {
	// Script is played by turns that bring none: a JSON list of steps. Check
	// it with CheckScript; one that is wrong makes the agent unusable.
	Script json.RawMessage
	// StateDir is where sessions are kept, one file each; made when needed.
	// "" keeps them in memory for the life of the Backend.
	StateDir string
	// WordDelay stands between the words of an echo; 0 is none.
	WordDelay time.Duration
	// Children starts the child of a crash step; nil has each started for itself.
	Children *backends.Children
	// CrashCommand is the child of a crash step: a program and its arguments.
	// It finds what to do in CrashExitEnv and CrashStderrEnv, as CrashChild
	// does. nil is a line of /bin/sh, which not every image has.
	CrashCommand []string
}

// Backend is the simulated agent. Its methods may be called at the same time.
type Backend struct {
	opts      Options
	script    []step // the default one; nil echoes
	scriptErr error
	store     store
}

var (
	_ backends.Backend   = (*Backend)(nil)
	_ backends.Validator = (*Backend)(nil)
	_ backends.Steerer   = (*conversation)(nil)
	_ backends.Compacter = (*conversation)(nil)
)

// New makes the agent; nil is the zero Options.
func New(o *Options) *Backend {
	b := &Backend{}
	if o != nil {
		b.opts = *o
	}
	b.store = store{dir: b.opts.StateDir, children: b.opts.Children, memory: map[string][]byte{}}
	if len(b.opts.Script) > 0 {
		b.script, b.scriptErr = parseScript("script", b.opts.Script)
	}
	return b
}

// Name implements backends.Backend.
func (b *Backend) Name() string { return Name }

// Probe implements backends.Backend: it can always run, unless its default
// script is wrong.
func (b *Backend) Probe(context.Context) backends.Status {
	s := backends.Status{
		Usable: true, Version: "1", Pinned: "1", Login: "none",
		Models: []string{DefaultModel},
		Capabilities: backends.Capabilities{
			Resume: true, Reasoning: true, Tools: true, Permissions: true,
			Questions: true, Images: true, Schema: true, Steer: true, Compact: true,
		},
	}
	if b.scriptErr != nil {
		s.Usable, s.ErrorType = false, events.ErrBackendUnavailable
		s.Why = "the default script is wrong: " + b.scriptErr.Error()
		s.Hint = "correct the file of --simulate-script"
	}
	return s
}

// Validate implements backends.Validator: it names the first option or step
// that does not exist or is of a wrong type.
func (b *Backend) Validate(s backends.Settings) error {
	_, err := b.stepsOf(s)
	return err
}

// Open implements backends.Backend.
func (b *Backend) Open(ctx context.Context, cfg backends.Config) (backends.Conversation, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, wrap(err)
	}
	s, err := b.session(cfg)
	if err != nil {
		return nil, err
	}
	return &conversation{
		b: b, cfg: cfg, session: s,
		running: make(chan struct{}, 1),
		done:    make(chan struct{}), closing: make(chan struct{}),
	}, nil
}

// session resumes the session that cfg names, or makes a new one and has its
// id saved.
func (b *Backend) session(cfg backends.Config) (*session, error) {
	if !cfg.Session.Zero() {
		return b.store.load(cfg.Session.ID)
	}
	s := newSession()
	// Unsynced: a session without a turn is no loss, and the first turn waits.
	// Written all the same: a turn that is canceled at once leaves it resumable.
	if err := b.store.save(s, false); err != nil {
		return nil, unwritten(err)
	}
	if cfg.Save == nil {
		return s, nil
	}
	if err := cfg.Save(backends.Session{ID: s.ID}); err != nil {
		return nil, &backends.Error{Type: events.ErrInternal, Message: "the session's id cannot be saved: " + err.Error()}
	}
	return s, nil
}

// Close implements backends.Backend; conversations share nothing.
func (b *Backend) Close(context.Context) error { return nil }

// Told is what a session has been told so far, and has said; its own model
// would see as much. It returns backends.ErrNoSession for an unknown one.
func (b *Backend) Told(sessionID string) (Told, error) {
	s, err := b.store.load(sessionID)
	if err != nil {
		return Told{}, err
	}
	return s.Told, nil
}
