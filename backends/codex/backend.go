package codex

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"innerd/backends"
	"innerd/backends/internal/cli"
	"innerd/events"
)

// Version is the release of Codex that this package was written and tested
// against. The app-server protocol has no version of its own.
const Version = "0.171.0"

const backendName = "codex"

// Options of a Backend.
type Options struct {
	// Path of the codex binary. "": INNERD_CODEX_PATH, then where `make agents`
	// puts the pinned one, then PATH.
	Path string
	// Home is the folder for what agents keep; codex's is a folder in it, with
	// sessions in it. "": one below the user's cache folder.
	Home string
	// Children starts the processes. Required.
	Children *backends.Children
	// Getenv reads the server's environment. nil: os.Getenv.
	Getenv func(string) string
	// MaxRetries is how often codex repeats a model request that failed.
	// 0: 3; negative: never.
	MaxRetries int
	Logger     *slog.Logger // nil: none
}

// Backend runs Codex.
type Backend struct {
	o   Options
	log *slog.Logger

	unknown backends.UnknownTypes

	mu       sync.Mutex
	versions cli.Versions
	servers  map[string]*server // by what conversations must have in common
	models   []string           // as the last process that was started told
	home     bool               // codex's folder is prepared
	closed   bool

	callLimit  time.Duration // for an answer that takes no model
	inputLimit time.Duration // for the answer to a turn's input
}

// New makes the backend. It starts nothing, and needs nothing to be there:
// what is missing is said by Probe, and by Open.
func New(o *Options) *Backend {
	b := &Backend{o: *o, log: o.Logger, servers: map[string]*server{}, callLimit: callLimit, inputLimit: inputLimit}
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
		Steer: true, Compact: true, Shared: true,
	}
}

// Probe implements backends.Backend. The binary's version is asked for once.
func (b *Backend) Probe(ctx context.Context) backends.Status {
	l := b.login(nil)
	s := backends.Status{Pinned: Version, Login: l.Kind(), Source: l.Source, Capabilities: b.capabilities()}
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
	b.mu.Lock()
	s.Models = b.models
	b.mu.Unlock()
	if !l.Usable() {
		s.Why, s.Hint, s.ErrorType = whyNoLogin, hintLogin, events.ErrAuth
		return s
	}
	s.Usable = true
	return s
}

const (
	whyNoLogin  = "there is no key and no login for Codex"
	hintLogin   = "Set OPENAI_API_KEY (or INNERD_CODEX_API_KEY), or log in once with `codex login` as the same user."
	hintInstall = "Install it with `make agents`, or `npm install -g @openai/codex@" + Version + "`, or name the binary in INNERD_CODEX_PATH."
)

// Open implements backends.Backend. The thread is begun, or resumed, by the
// first run, which brings what it must be told then.
func (b *Backend) Open(_ context.Context, cfg backends.Config) (backends.Conversation, error) {
	path, err := b.binary()
	if err != nil {
		return nil, &backends.Error{Type: events.ErrBackendUnavailable, Message: err.Error() + ". " + hintInstall}
	}
	l := b.login(cfg.Credential)
	if !l.Usable() {
		return nil, &backends.Error{Type: events.ErrAuth, Message: whyNoLogin + ". " + hintLogin}
	}
	if err := b.settled(); err != nil {
		return nil, &backends.Error{Type: events.ErrBackendUnavailable, Message: "codex's folder can't be made: " + err.Error()}
	}
	if err := b.provide(l); err != nil {
		return nil, &backends.Error{Type: events.ErrAuth, Message: "the login can't be copied: " + err.Error()}
	}
	c := newConversation(b, cfg, path, l)
	if cfg.Session.Zero() {
		return c, nil
	}
	if c.rollout(cfg.Session.ID) == "" {
		return nil, fmt.Errorf("session %s: %w", cfg.Session.ID, backends.ErrNoSession)
	}
	c.thread, c.saved, c.told = cfg.Session.ID, cfg.Session.ID, true
	return c, nil
}

// Close implements backends.Backend: it ends the processes.
func (b *Backend) Close(ctx context.Context) error {
	b.mu.Lock()
	b.closed = true
	var all []*server
	for _, s := range b.servers {
		all = append(all, s)
	}
	b.mu.Unlock()
	var errs []error
	for _, s := range all {
		errs = append(errs, s.stop(ctx))
	}
	return errors.Join(errs...)
}

// homeFile says where codex's folder was when it was last used.
const homeFile = "innerd-home"

// settled prepares codex's folder once, before anything runs in it.
func (b *Backend) settled() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.home {
		return b.o.Children.MkdirAll(b.codexHome())
	}
	err := b.settle()
	b.home = err == nil
	return err
}

// settle prepares codex's folder. One that was moved or copied holds indexes
// with the old path in them, by which no session is found: they are thrown
// away, and codex makes them anew from the sessions.
func (b *Backend) settle() error {
	home := b.codexHome()
	if err := b.o.Children.MkdirAll(home); err != nil {
		return err
	}
	mark := filepath.Join(home, homeFile)
	was, err := b.o.Children.ReadFile(mark, 1<<16)
	if err == nil && string(was) == home {
		return nil
	}
	err = b.o.Children.In(home, func(root *os.Root) error {
		indexes, _ := fs.Glob(root.FS(), "*.sqlite*")
		for _, file := range indexes {
			if err := root.Remove(file); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil { // it leads elsewhere, say: what is there is not for us to remove
		b.log.Warn("codex's old indexes could not be removed; sessions of before it was moved may not be found", "folder", home, "err", err)
		return nil // without the mark, so that the next start tries again
	}
	return b.o.Children.WriteFile(mark, []byte(home))
}

// codexHome is codex's own folder, the same for all its processes.
func (b *Backend) codexHome() string { return filepath.Join(b.o.Home, backendName) }

// Unknown implements backends.Observer.
func (b *Backend) Unknown() map[string]int64 { return b.unknown.Counts() }

// Validate implements backends.Validator.
func (b *Backend) Validate(s backends.Settings) error {
	if len(s.Schema) > 0 && !isObject(s.Schema) {
		return &backends.FieldError{Field: "metadata.response_format", Reason: "not a JSON object"}
	}
	_, err := parseOptions(s.Options)
	return err
}
