package codex

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"innerd/backends"
	"innerd/events"
)

// conversation is one thread of codex's.
type conversation struct {
	b     *Backend
	cfg   backends.Config
	path  string
	login login

	// Runs go one after another: these are the current run's.
	thread string // "" before the first run
	saved  string // the session that Save has
	told   bool   // codex knows something in this thread
	loaded bool   // in the process, as set says
	set    setup
	model  string // that the thread was loaded with, as codex told it
	effort string // of the last turn

	mu      sync.Mutex
	srv     *server
	turn    *turn          // nil between runs
	compact chan struct{}  // closed at the end of a turn that nobody runs; nil unless waited for
	failed  *turnError     // how that ended
	own     string         // its id
	total   counts         // of the thread, as last told
	strays  int            // messages outside of a run
	ended   backends.Ended // turns that are over, sub-agents' too
	gone    bool           // done is closed
	closed  bool
	done    chan struct{}
	running sync.WaitGroup

	heard atomic.Int64 // messages in its process
}

func newConversation(b *Backend, cfg backends.Config, path string, l login) *conversation {
	return &conversation{b: b, cfg: cfg, path: path, login: l, done: make(chan struct{})}
}

// Done implements backends.Conversation.
func (c *conversation) Done() <-chan struct{} { return c.done }

// Lives implements backends.Lively.
func (c *conversation) Lives() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.srv != nil && c.srv.peer.Err() == nil
}

var (
	errClosed = errors.New("the conversation was closed")
	errEnded  = &backends.Error{Type: events.ErrBackendCrashed, Message: "codex has ended"}
)

// closeLimit bounds what a closing conversation does in a process that others share.
const closeLimit = 3 * time.Second

// Close implements backends.Conversation.
func (c *conversation) Close(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	c.giveUpLocked() // a run that is on sees it
	c.mu.Unlock()
	c.running.Wait()
	c.mu.Lock()
	s := c.srv
	c.srv = nil
	c.mu.Unlock()
	if s == nil {
		return nil
	}
	c.leave(ctx, s)
	s.release()
	return nil
}

// leave ends what the conversation has in a process that lives on.
func (c *conversation) leave(ctx context.Context, s *server) {
	threads := s.detach(c)
	if s.alone() {
		return // it ends with the process
	}
	ctx, cancel := context.WithTimeout(ctx, closeLimit)
	defer cancel()
	for _, id := range threads {
		_ = s.peer.Call(ctx, "thread/backgroundTerminals/clean", threadRef{ThreadID: id}, nil)
		_ = s.peer.Call(ctx, "thread/unsubscribe", threadRef{ThreadID: id}, nil)
	}
	c.sweep(s)
}

// sweep ends what commands of this conversation have left running.
func (c *conversation) sweep(s *server) {
	if c.cfg.ID == "" {
		return
	}
	if err := s.process().Sweep(context.Background(), c.cfg.ID); err != nil { // it has its own limit
		c.b.log.Error("commands of a conversation could not be ended", "conversation", c.cfg.ID, "err", err)
	}
}

// begin admits a run; the caller calls c.running.Done.
func (c *conversation) begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return errClosed
	case c.gone:
		return errEnded
	}
	c.running.Add(1)
	return nil
}

// giveUp ends the conversation: its process is gone, or it cannot be stopped.
func (c *conversation) giveUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.giveUpLocked()
}

func (c *conversation) giveUpLocked() {
	if !c.gone {
		c.gone = true
		close(c.done)
	}
}

// isGone reports whether the conversation can take no further run.
func (c *conversation) isGone() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone
}

func (c *conversation) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// server gives the conversation's process.
func (c *conversation) server(ctx context.Context) (*server, error) {
	c.mu.Lock()
	s := c.srv
	dead := s != nil && s.peer.Err() != nil
	c.mu.Unlock()
	switch {
	case dead:
		s.known()
		if c.isGone() {
			return nil, errEnded
		}
		c.mu.Lock()
		c.srv = nil // it ended while no thread of ours was in it: nobody told us
		c.mu.Unlock()
		s.release()
		c.loaded = false
	case s != nil:
		return s, nil
	}
	env := c.b.environ(c.cfg.Env)
	s, err := c.b.acquire(ctx, c.shareKey(env), c.path, env)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.srv = s
	c.heard.Store(0)
	return s, nil
}

// shareKey is equal for conversations that may share a process: a command of
// one can look into the process's memory, where the others' keys are.
func (c *conversation) shareKey(env map[string]string) string {
	l := c.login
	raw, _ := json.Marshal([]any{c.path, env, l.Key, l.BaseURL, l.Provider, l.Login}) // strings: cannot fail
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// save makes the thread's id durable where it is new.
func (c *conversation) save() error {
	if c.saved == c.thread || c.cfg.Save == nil {
		return nil
	}
	if err := c.cfg.Save(backends.Session{ID: c.thread}); err != nil {
		return &backends.Error{Type: events.ErrStorage, Message: "the session could not be noted: " + err.Error()}
	}
	c.saved = c.thread
	return nil
}

func status(state, detail string) events.Event {
	return events.Event{Data: events.Status{State: state, Detail: detail}}
}

// notification is called by the goroutine that reads the process; false: it is
// for nobody.
func (c *conversation) notification(r *route, method string, n *notification) bool {
	n.TurnID = orElse(n.Turn.ID, n.TurnID)
	total := method == methodUsage && r.agent == "" // of the thread, whichever turn it is of
	if !total && c.ended.Has(n.TurnID) {
		return false
	}
	c.mu.Lock()
	t := c.turn
	base := c.total
	if total {
		c.total = n.TokenUsage.Total
	}
	c.mu.Unlock()
	switch {
	case t != nil && t.take(r, method, n, base):
		return true
	case r.agent != "": // a sub-agent's late words are nobody's
		return false
	}
	return c.outside(method, n)
}

// outside takes what belongs to no run: a compaction that was asked for, what
// ends late. False: it is for nobody.
func (c *conversation) outside(method string, n *notification) bool {
	switch {
	case method == "turn/started":
		c.mu.Lock()
		defer c.mu.Unlock()
		c.own = n.Turn.ID
	case method == "turn/completed":
		c.ended.Add(n.TurnID)
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.compact != nil {
			c.failed = n.Turn.Error
			close(c.compact)
			c.compact = nil
		}
	case method == "item/started" && n.Item.Type == itemCompaction:
		c.stray(events.Status{State: events.StateCompacting})
	case method == "item/completed" && n.Item.Type == itemMessage:
		c.stray(events.Status{State: events.StateNotice, Detail: "codex said something outside of a run: " + excerpt(n.Item.Text)})
	case method == "warning":
		c.b.log.Info("codex warns", "warning", n.Message)
	default:
		return !ofTurn(method)
	}
	return true
}

// compactsNext reports whether a compaction was asked for that has not begun:
// it may have been canceled, and codex begins it before the turn that was asked
// for since.
func (c *conversation) compactsNext() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.compact != nil && c.own == ""
}

// notOwn takes it back that a turn is the compaction's; false: nobody said so.
func (c *conversation) notOwn(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.own != id {
		return false
	}
	c.own = ""
	return true
}

func (c *conversation) stray(d events.Data) {
	c.mu.Lock()
	c.strays++
	say := worthSaying(c.strays)
	c.mu.Unlock()
	if say && c.cfg.Stray != nil {
		c.cfg.Stray(events.Event{Data: d})
	}
}
