// Package proc runs the child processes of backends: their start, group, mark,
// lines and end. It promises that no process of an agent outlives what asked
// for it: not its Stop, not the server's Close, and not a server that was
// killed, once the next one has run Recover.
//
// What cannot be promised: an orphan that has both left the session and thrown
// its environment away carries no mark. Outside Linux there is no /proc, so
// that the sweep ends the child's group and nothing more, and children are not
// ended by the kernel when the server is killed.
package proc

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
)

// Errors of the package; test with errors.Is.
var (
	ErrClosed  = errors.New("proc: closed")
	ErrBacklog = errors.New("proc: too much input is waiting for the child")
)

// Options of a Supervisor. The zero value is usable.
type Options struct {
	StateDir string       // children are recorded in StateDir/children; "": nowhere
	ServerID string       // first part of every mark, the id in STATE/VERSION; "": a random one
	Logger   *slog.Logger // nil: none
	Inherit  []string     // further variables that agents inherit; a trailing * is a prefix
	Starter  Starter      // nil: children are started by this process
	// Env is added to what agents inherit.
	Env map[string]string
	// Group is one that this process and the agents' user are in, for files
	// that pass between them; 0: they are the same user.
	Group int
}

// Supervisor starts children and sees to their end. There is one per server;
// its methods may be called at the same time.
type Supervisor struct {
	id      string
	records records
	starter Starter
	inherit []string
	env     map[string]string
	group   int
	state   string
	log     *slog.Logger

	mu       sync.Mutex
	closed   bool
	children map[*Child]struct{}
	starting sync.WaitGroup // Starts under way
}

// New makes a Supervisor. It starts nothing.
func New(o Options) *Supervisor {
	s := &Supervisor{id: o.ServerID, starter: o.Starter, inherit: o.Inherit, env: o.Env, group: o.Group, state: o.StateDir, log: o.Logger, children: map[*Child]struct{}{}}
	if s.id == "" {
		s.id = ulid.Make().String()
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.starter == nil {
		s.starter = NewLocal()
	}
	s.records = newRecords(o.StateDir)
	return s
}

// Close stops every child, waits until all are gone and refuses new ones. The
// end of ctx is the end of every grace. The Supervisor is of no use afterwards.
func (s *Supervisor) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.starting.Wait()

	var wg sync.WaitGroup
	errs := make(chan error, 1)
	for _, c := range s.live() {
		wg.Go(func() {
			if err := c.Stop(ctx); err != nil {
				select {
				case errs <- err:
				default: // one of them says enough
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		return err // the thread of its start must outlive it
	default:
	}
	// What a child's own sweep could not end gets another.
	// It is bounded, and needs its time even where ctx has ended.
	err := s.sweepAll(context.WithoutCancel(ctx), Target{Mark: s.id}, sweepLimit)
	if c, ok := s.starter.(io.Closer); ok {
		_ = c.Close()
	}
	return err
}

// sweepAll sweeps and then forgets every record.
func (s *Supervisor) sweepAll(ctx context.Context, t Target, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := s.starter.Sweep(ctx, t); err != nil {
		return err // the records stay, for the next try
	}
	s.records.clear()
	return nil
}

// Recover ends whatever an earlier server with the same id left running and
// forgets its records. Call it once, before the first Start. It takes as long
// as processes need to die, at most ten seconds.
func (s *Supervisor) Recover(ctx context.Context) error {
	if len(s.live()) > 0 {
		return errors.New("proc: Recover after the first Start")
	}
	old, err := s.records.load(s.log)
	if err != nil {
		return err
	}
	t := Target{Mark: s.id}
	boot := bootID()
	for _, r := range old {
		if r.ID.PID > 0 && r.Boot == boot {
			t.IDs = append(t.IDs, r.ID)
		}
	}
	return s.sweepAll(ctx, t, recoverLimit)
}

const (
	recoverLimit = 10 * time.Second
	sweepLimit   = 5 * time.Second
)

// begin admits one Start; the caller calls s.starting.Done.
func (s *Supervisor) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	s.starting.Add(1)
	return nil
}

func (s *Supervisor) add(c *Child) {
	s.mu.Lock()
	s.children[c] = struct{}{}
	s.mu.Unlock()
}

func (s *Supervisor) forget(c *Child) {
	s.mu.Lock()
	delete(s.children, c)
	s.mu.Unlock()
}

func (s *Supervisor) live() []*Child {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*Child, 0, len(s.children))
	for c := range s.children {
		all = append(all, c)
	}
	return all
}
