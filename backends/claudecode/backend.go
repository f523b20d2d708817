package claudecode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"innerd/backends"
	"innerd/backends/internal/cli"
	"innerd/events"
)

// Version is the release of Claude Code that this package was written and
// tested against. The control protocol has no version of its own.
const Version = "2.1.332"

// Options of a Backend.
type Options struct {
	// Path of the claude binary. "": INNERD_CLAUDE_CODE_PATH, then where
	// `make agents` puts the pinned one, then PATH.
	Path string
	// Home is the folder for what agents keep; claude's is a folder in it,
	// with sessions in it. "": one below the user's cache folder.
	Home string
	// Children starts the processes. Required.
	Children *backends.Children
	// Getenv reads the server's environment. nil: os.Getenv.
	Getenv func(string) string
	// MaxRetries is how often claude repeats a model request that failed.
	// 0: 3; negative: never.
	MaxRetries int
	// BackgroundLimit is how long work in the background is waited for after
	// the last answer, where a run asks for that. 0: 10 minutes.
	BackgroundLimit time.Duration
	Logger          *slog.Logger // nil: none
}

// Backend runs Claude Code. Its conversations share nothing but folders.
type Backend struct {
	o   Options
	log *slog.Logger

	mu       sync.Mutex
	versions cli.Versions
	models   []string // what claude last said that it has

	unknown    backends.UnknownTypes
	stopLimit  time.Duration // for background work to end that was told to
	callLimit  time.Duration // for an answer that takes no model
	inputLimit time.Duration // for a sign that claude has a turn's input
}

// New makes the backend. It starts nothing, and needs nothing to be there:
// what is missing is said by Probe, and by Open.
func New(o *Options) *Backend {
	b := &Backend{o: *o, log: o.Logger, stopLimit: stopLimit, callLimit: callLimit, inputLimit: inputLimit}
	if b.o.Getenv == nil {
		b.o.Getenv = os.Getenv
	}
	if b.log == nil {
		b.log = slog.New(slog.DiscardHandler)
	}
	if b.o.Home == "" {
		if dir, err := os.UserCacheDir(); err == nil {
			b.o.Home = filepath.Join(dir, "innerd", "agents-home")
		} else {
			b.o.Home = filepath.Join(os.TempDir(), "innerd-agents-home")
		}
	}
	return b
}

// Name implements backends.Backend.
func (b *Backend) Name() string { return backendName }

func (b *Backend) capabilities() backends.Capabilities {
	return backends.Capabilities{
		Resume: true, Reasoning: true, Tools: true, Permissions: true, Questions: true, Images: true, Schema: true,
		Steer: true, Compact: true,
	}
}

// Probe implements backends.Backend. The binary's version is asked for once.
func (b *Backend) Probe(ctx context.Context) backends.Status {
	l := b.login(nil)
	s := backends.Status{Pinned: Version, Login: l.kind(), Source: l.Source, Capabilities: b.capabilities()}
	path, err := b.binary()
	if err != nil {
		s.Why, s.Hint, s.ErrorType = err.Error(), hintInstall, events.ErrBackendUnavailable
		return s
	}
	if s.Version, err = b.version(ctx, path); err != nil {
		s.Why = fmt.Sprintf("%s does not run: %v", path, err)
		s.Hint, s.ErrorType = hintInstall, events.ErrBackendUnavailable
		return s
	}
	if !l.Usable() {
		s.Why, s.Hint, s.ErrorType = whyNoLogin, hintLogin, events.ErrAuth
		return s
	}
	s.Usable = true
	s.Models = b.knownModels()
	if s.Version != Version { // a warning: it may work as well
		s.Hint = "This is version " + s.Version + "; tested was " + Version + ", and the way it is driven has no version of its own. " + hintInstall
	}
	return s
}

// setModels keeps the models that claude names at its start.
func (b *Backend) setModels(answer json.RawMessage) {
	var a struct {
		Models []struct {
			Value string `json:"value"`
		} `json:"models"`
	}
	if json.Unmarshal(answer, &a) != nil || len(a.Models) == 0 {
		return
	}
	var names []string
	for _, m := range a.Models {
		if m.Value != "" && m.Value != "default" {
			names = append(names, m.Value)
		}
	}
	b.mu.Lock()
	b.models = names
	b.mu.Unlock()
}

// knownModels are claude's own, once a conversation was opened.
func (b *Backend) knownModels() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.models)
}

const (
	whyNoLogin  = "there is no key and no login for Claude Code"
	hintLogin   = "Set ANTHROPIC_API_KEY (or INNERD_CLAUDE_CODE_API_KEY), or log in once with `claude` as the same user."
	hintInstall = "Install it with `make agents`, or `npm install -g @anthropic-ai/claude-code@" + Version + "`, or name the binary in INNERD_CLAUDE_CODE_PATH."
)

// Open implements backends.Backend. The process starts with the first run,
// which brings what claude must be told at its start.
func (b *Backend) Open(_ context.Context, cfg backends.Config) (backends.Conversation, error) {
	path, err := b.binary()
	if err != nil {
		return nil, &backends.Error{Type: events.ErrBackendUnavailable, Message: err.Error() + ". " + hintInstall}
	}
	l := b.login(cfg.Credential)
	if !l.Usable() {
		return nil, &backends.Error{Type: events.ErrAuth, Message: whyNoLogin + ". " + hintLogin}
	}
	dir := b.configDir()
	if err := b.o.Children.MkdirAll(dir); err != nil {
		return nil, &backends.Error{Type: events.ErrBackendUnavailable, Message: "claude's folder can't be made: " + err.Error()}
	}
	if err := l.provide(b.o.Children, dir); err != nil {
		return nil, &backends.Error{Type: events.ErrAuth, Message: "the login can't be copied: " + err.Error()}
	}
	c := newConversation(b, cfg, path, l)
	if cfg.Session.Zero() {
		return c, nil
	}
	if !c.reopen(cfg.Session) {
		return nil, fmt.Errorf("session %s: %w", cfg.Session.ID, backends.ErrNoSession)
	}
	return c, nil
}

// Close implements backends.Backend; conversations share no process.
func (b *Backend) Close(context.Context) error { return nil }

// configDir is claude's own folder.
func (b *Backend) configDir() string { return filepath.Join(b.o.Home, "claude") }

// Validate implements backends.Validator.
func (b *Backend) Validate(s backends.Settings) error {
	if len(given(s.Schema)) == 0 {
		return nil
	}
	if err := objectOnly(s.Schema); err != nil {
		return &backends.FieldError{Field: "metadata.response_format", Reason: err.Error()}
	}
	return nil
}

var errNotObject = errors.New("not a JSON object")
