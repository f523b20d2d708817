package codex

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"innerd/backends"
	"innerd/backends/internal/proc"
	"innerd/backends/internal/rpc"
	"innerd/events"
)

const (
	startLimit = 60 * time.Second // from the start to the answer of initialize; starts are CPU-bound
	callLimit  = 30 * time.Second // for an answer that takes no model
	// inputLimit is for the answer to a turn's input, which begins a run that is
	// paid for, when many agents start at once on a slow machine say.
	inputLimit = 2 * time.Minute
	pingLimit  = 2 * time.Second
	eofLimit   = 2 * time.Second // for an idle process to end by itself
	maxNotices = 20              // of a kind before they are thinned out
)

// server is one app-server and the conversations that share it. What it prints
// is read by one goroutine, which calls line; everything else may be called at
// the same time.
type server struct {
	b    *Backend
	key  string
	log  *slog.Logger
	peer *rpc.Peer

	users int                // conversations that hold it; under the backend's lock
	ctx   context.Context    // of the start, which ends with the last of them
	end   context.CancelFunc //
	ready chan struct{}      // closed when the start is over
	err   error              // of the start; before ready is closed
	over  chan struct{}      // closed when the process has ended and everybody was told

	mu      sync.Mutex
	child   *proc.Child
	ending  bool
	threads map[string]*route
	odd     int         // lines that are no messages
	late    int         // messages for nobody, of turns that had ended say
	limits  *rateLimits // of the account, as last told
	why     string      // we have ended it; "" where it ends by itself

	heard atomic.Int64 // messages for conversations
}

// acquire gives the process of a key, started if there is none; whoever gets
// one calls release.
func (b *Backend) acquire(ctx context.Context, key, path string, env map[string]string) (*server, error) {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil, errClosed
	}
	s := b.servers[key]
	if s == nil {
		s = &server{
			b: b, key: key, log: b.log, ready: make(chan struct{}), over: make(chan struct{}),
			threads: map[string]*route{},
		}
		s.ctx, s.end = context.WithCancel(context.Background())
		b.servers[key] = s
		go func() { // ends with the start, which release waits for
			s.err = s.start(s.ctx, path, env)
			close(s.ready)
		}()
	}
	s.users++
	b.mu.Unlock()
	select {
	case <-s.ready:
	case <-ctx.Done():
		s.release()
		return nil, context.Cause(ctx)
	}
	if s.err != nil {
		s.release()
		return nil, s.err
	}
	return s, nil
}

// release gives the process up; the last one ends it.
func (s *server) release() {
	s.b.mu.Lock()
	s.users--
	last := s.users == 0
	if last {
		s.forgetLocked()
	}
	s.b.mu.Unlock()
	if !last {
		return
	}
	s.end()
	if <-s.ready; s.err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), 2*eofLimit+proc.DefaultGrace)
		defer cancel()
		if err := s.stop(ctx); err != nil {
			s.log.Error("codex could not be ended", "err", err)
		}
	}
}

// forgetLocked makes the next who wants such a process start one.
func (s *server) forgetLocked() {
	if s.b.servers[s.key] == s {
		delete(s.b.servers, s.key)
	}
}

// start runs the program and waits until it is ready. On any error no process
// is left.
func (s *server) start(ctx context.Context, path string, env map[string]string) error {
	s.peer = rpc.New(rpc.Options{
		Send: s.send, Notification: s.notification, Request: s.request,
		Garbage: func(what string) { s.oddLine("codex printed what is no message: " + what) },
	})
	child, err := s.b.o.Children.Start(ctx, proc.Command{
		Name: binaryName, Path: path, Args: args(), Dir: s.b.codexHome(), Env: s.b.o.Children.Environ(env),
		OnStart: func(c *proc.Child) { s.mu.Lock(); s.child = c; s.mu.Unlock() },
		OnLine:  s.peer.Handle, OnNotice: s.oddLine,
	})
	if err != nil {
		s.drop()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return &backends.Error{Type: events.ErrBackendUnavailable, Message: err.Error()}
	}
	go s.watch(child) // ends with the process
	limited, cancel := context.WithTimeoutCause(ctx, startLimit, &backends.Error{
		Type: events.ErrBackendUnavailable, Message: "codex did not get ready in " + startLimit.String(),
	})
	defer cancel()
	err = s.peer.Call(limited, "initialize", map[string]any{
		"clientInfo":   map[string]any{"name": "innerd", "title": "innerd", "version": "1"},
		"capabilities": map[string]any{"experimentalApi": true, "optOutNotificationMethods": quiet},
	}, nil)
	if err == nil {
		err = s.peer.Notify("initialized", nil)
	}
	if err == nil {
		s.askModels()
		return nil
	}
	s.drop()
	_ = child.Stop(context.WithoutCancel(ctx)) // it is of no use to anybody, and has its own grace
	var own *backends.Error
	switch {
	case errors.As(err, &own):
		if own.Exit != nil {
			return notStarted(*own.Exit)
		}
		return own
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return &backends.Error{Type: events.ErrBackendUnavailable, Message: "codex refused its set-up: " + err.Error()}
}

func (s *server) drop() {
	s.b.mu.Lock()
	s.forgetLocked()
	s.b.mu.Unlock()
}

// askModels has the process tell its models, for Probe. They are in the
// binary: nothing is asked of a provider.
func (s *server) askModels() {
	_, _ = s.peer.Go("model/list", struct{}{}, func(raw json.RawMessage, err error) {
		var list struct {
			Data []struct {
				Model  string `json:"model"`
				Hidden bool   `json:"hidden"`
			} `json:"data"`
		}
		if err != nil || json.Unmarshal(raw, &list) != nil {
			return
		}
		var names []string
		for _, m := range list.Data {
			if !m.Hidden {
				names = append(names, m.Model)
			}
		}
		s.b.mu.Lock()
		s.b.models = names
		s.b.mu.Unlock()
	})
}

// watch tells everybody of the process's end.
func (s *server) watch(child *proc.Child) {
	defer close(s.over)
	<-child.Done()
	exit := backends.Exit(child.Exit())
	s.drop()
	s.mu.Lock()
	all := s.threads
	s.threads = map[string]*route{}
	ending, late, why := s.ending, s.late, s.why
	s.mu.Unlock()
	if !ending {
		s.log.Warn("codex has ended", "code", exit.Code, "signal", exit.Signal, "stderr_bytes", len(exit.StderrTail))
	}
	if late > 0 {
		s.log.Info("codex has ended; some of what it said was for nobody", "late_events", late)
	}
	s.peer.Close(crashed(exit, why))
	for _, r := range all {
		r.c.giveUp()
	}
}

func (s *server) process() *proc.Child {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.child
}

// stderr is the end of what the process has logged.
func (s *server) stderr() string {
	if child := s.process(); child != nil {
		return child.StderrTail()
	}
	return ""
}

// mark is what the commands of every conversation have in their environment,
// with a dot and the conversation's id.
func (s *server) mark() string { return s.process().Mark() }

func (s *server) send(frame []byte) error { return s.process().Send(frame) }

// gone is closed when the process has ended and everybody was told.
func (s *server) gone() <-chan struct{} { return s.over }

// known waits until all conversations know of the process's end, where calls
// already say so: what comes next must find them given up, and not be in another
// process when they are.
func (s *server) known() {
	if s.peer.Err() != nil {
		<-s.over
	}
}

// kill ends the process at once: it had its grace. why is told in every run that
// is in it.
func (s *server) kill(why string) {
	s.drop()
	s.mu.Lock()
	s.why = why
	s.mu.Unlock()
	now, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.process().Stop(now)
	<-s.process().Done()
}

// alone reports whether one conversation has the process for itself.
func (s *server) alone() bool {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	return s.users == 1
}

// stop ends the process by its EOF, the end that it likes best, and waits
// until nothing of it is left.
func (s *server) stop(ctx context.Context) error {
	s.drop()
	s.mu.Lock()
	child := s.child
	s.ending = true
	s.mu.Unlock()
	if child == nil {
		return nil
	}
	child.CloseInput()
	limit := time.NewTimer(eofLimit)
	defer limit.Stop()
	select {
	case <-s.gone():
		return nil
	case <-limit.C:
	case <-ctx.Done():
	}
	if err := child.Stop(ctx); err != nil {
		return err
	}
	<-s.gone()
	return nil
}
