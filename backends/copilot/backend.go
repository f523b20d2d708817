package copilot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"innerd/backends"
	"innerd/events"
)

// Version is the release of Copilot CLI that this package was written and
// tested against.
const Version = "1.0.102"

const backendName = "copilot"

// Options of a Backend.
type Options struct {
	// Path of the copilot binary, or of npm's loader beside it. "":
	// INNERD_COPILOT_PATH, then where `make agents` puts the pinned one, then PATH.
	Path string
	// Home is the folder for what agents keep; copilot's is a folder in it,
	// with sessions in it. "": one below the user's cache folder.
	Home string
	// Children starts the processes. Required.
	Children *backends.Children
	// Getenv reads the server's environment. nil: os.Getenv.
	Getenv func(string) string
	// MaxRetries is how often a model request that failed is repeated; the CLI
	// itself would five times. 0: 3; negative: never.
	MaxRetries int
	// Linger is how long a process without conversations is kept. 0: a minute;
	// negative: not at all.
	Linger time.Duration
	Logger *slog.Logger // nil: none
}

// Backend runs Copilot CLI.
type Backend struct {
	o   Options
	log *slog.Logger

	mu       sync.Mutex
	closed   bool
	pool     map[string]*slot    // processes by what their conversations have in common
	shunned  map[*slot]bool      // processes that get no new conversations
	versions map[string]*version // by path, modification time and size
	unpack   *unpacking
	ending   sync.WaitGroup // ends of processes that nobody used

	sessions openSessions

	callLimit, inputLimit time.Duration // for an answer that asks no model

	unknown backends.UnknownTypes
}

// New makes the backend. It starts nothing, and needs nothing to be there:
// what is missing is said by Probe, and by Open.
func New(o *Options) *Backend {
	b := &Backend{o: *o, log: o.Logger, pool: map[string]*slot{}, shunned: map[*slot]bool{}, versions: map[string]*version{}, callLimit: callLimit, inputLimit: inputLimit}
	if b.o.Getenv == nil {
		b.o.Getenv = os.Getenv
	}
	if b.log == nil {
		b.log = slog.New(slog.DiscardHandler)
	}
	if b.o.Linger == 0 {
		b.o.Linger = time.Minute
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
		Resume: true, Reasoning: true, Tools: true, Permissions: true, Questions: true, Images: true,
		Schema: true, Steer: true, Compact: true, Shared: true,
	}
}

const (
	whyNoLogin = "there is no key of a model provider and no GitHub login for Copilot"
	hintLogin  = "Set INNERD_COPILOT_API_KEY and INNERD_COPILOT_BASE_URL for a provider of your own, or GITHUB_TOKEN (or GH_TOKEN) " +
		"of an account with Copilot, or log in once with `innerd login copilot`."
	hintInstall = "Install it with `make agents`, or `npm install -g @github/copilot@" + Version + "`, or name the binary in INNERD_COPILOT_PATH."
	hintUnpack  = "Nothing is to be done: it takes some seconds, once per release and user."
)

// Probe implements backends.Backend. It starts no process but for the first
// one of a release that has not unpacked itself yet (235 MB), which it does
// not wait for.
func (b *Backend) Probe(ctx context.Context) backends.Status {
	l := b.login(nil)
	s := backends.Status{Pinned: Version, Login: l.kind, Source: l.source, Capabilities: b.capabilities()}
	if l.model != "" {
		s.Models = []string{l.model}
	}
	bin, err := b.binary()
	if err != nil {
		s.Why, s.Hint, s.ErrorType = err.Error(), hintInstall, events.ErrBackendUnavailable
		return s
	}
	if s.Version, err = b.version(ctx, bin); err != nil {
		s.Why, s.ErrorType = fmt.Sprintf("%s: %v", bin.path, err), events.ErrBackendUnavailable
		s.Hint = hintInstall
		if errors.Is(err, errUnpacking) {
			s.Hint, s.Pending = hintUnpack, true
		}
		return s
	}
	if !l.usable() {
		s.Why, s.Hint, s.ErrorType = whyNoLogin, hintLogin, events.ErrAuth
		return s
	}
	s.Usable = true
	return s
}

// Open implements backends.Backend. The session begins, or is resumed, in the
// first run, which brings what it must be told: here only its folder is looked for.
func (b *Backend) Open(ctx context.Context, cfg backends.Config) (backends.Conversation, error) {
	bin, err := b.binary()
	if err != nil {
		return nil, &backends.Error{Type: events.ErrBackendUnavailable, Message: err.Error() + ". " + hintInstall}
	}
	if _, err := b.version(ctx, bin); errors.Is(err, errUnpacking) {
		return nil, &backends.Error{Type: events.ErrBackendUnavailable, Message: err.Error(), RetryAfter: 10 * time.Second}
	}
	if err := b.o.Children.MkdirAll(b.home()); err != nil {
		return nil, &backends.Error{Type: events.ErrBackendUnavailable, Message: "copilot's folder can't be made: " + err.Error()}
	}
	if !cfg.Session.Zero() && !b.stored(cfg.Session.ID) {
		return nil, fmt.Errorf("session %q: %w", cfg.Session.ID, backends.ErrNoSession)
	}
	return newConversation(b, cfg, bin, b.login(cfg.Credential)), nil
}

// home is copilot's own folder, its COPILOT_HOME.
func (b *Backend) home() string { return filepath.Join(b.o.Home, "copilot") }

// Unknown implements backends.Observer.
func (b *Backend) Unknown() map[string]int64 { return b.unknown.Counts() }

// Validate implements backends.Validator.
func (b *Backend) Validate(s backends.Settings) error {
	if len(s.Schema) > 0 && !isObject(s.Schema) {
		return &backends.FieldError{Field: "metadata.response_format", Reason: "not a JSON object"}
	}
	return nil
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
