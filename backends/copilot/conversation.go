package copilot

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"innerd/backends"
	"innerd/events"
)

// conversation is one session of copilot's, in the process that has it open.
type conversation struct {
	b     *Backend
	cfg   backends.Config
	bin   binary
	login login

	// Runs go one after another: these are the current run's.
	session  string
	saved    string   // the session that Save has
	sessions []string // those that it has had
	begun    bool     // copilot has this session, on its disk or in its memory
	last     backends.Settings
	effort   string // that the session was last told
	applied  string // what the session was last told, as JSON; "": it is not open in the process

	closing chan struct{} // closed by Close
	done    chan struct{}
	running sync.WaitGroup

	mu       sync.Mutex
	p        *process // nil before the first run
	turn     *turn    // nil between runs
	gone     bool     // done is closed
	closed   bool
	inUse    bool            // copilot says that another process has the session
	shells   bool            // a command was run that may have left something
	detaches bool            // one was told to outlive the session
	detached map[string]bool // calls of such that have not ended
	logs     []string        // files of such
	strays   int
	ended    backends.Ended // messages of turns that are over, and inputs that were begun with

	heard atomic.Int64 // messages in its process
}

func newConversation(b *Backend, cfg backends.Config, bin binary, l login) *conversation {
	c := &conversation{b: b, cfg: cfg, bin: bin, login: l, closing: make(chan struct{}), done: make(chan struct{}), detached: map[string]bool{}}
	c.session, c.saved, c.begun = cfg.Session.ID, cfg.Session.ID, !cfg.Session.Zero()
	return c
}

// Done implements backends.Conversation.
func (c *conversation) Done() <-chan struct{} { return c.done }

// Lives implements backends.Lively.
func (c *conversation) Lives() bool {
	p := c.proc()
	return p != nil && p.peer.Err() == nil
}

// Close implements backends.Conversation. The process stays for the others.
func (c *conversation) Close(ctx context.Context) error {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		close(c.closing)
	}
	c.giveUpLocked()
	c.mu.Unlock()
	c.running.Wait()
	c.mu.Lock()
	p := c.p
	c.p = nil
	c.mu.Unlock()
	if p != nil {
		c.detach(ctx, p)
		c.b.leave(p.slot)
	}
	c.removeLeft()
	return nil
}

const detachLimit = 2 * time.Second

// detach has copilot put the session away: its commands end and it is written.
func (c *conversation) detach(ctx context.Context, p *process) {
	if c.applied != "" && p.peer.Err() == nil {
		c.endDetached(p, func(task) { c.noteShell() }) // a run may have left it to us
		if err := p.call(context.WithoutCancel(ctx), detachLimit, "session.detach", sessionOnly{c.session}, nil); err != nil && p.peer.Err() == nil {
			p.log.Warn("copilot did not put a session away", "conversation", c.cfg.ID, "err", err)
			if errors.Is(err, errUnanswered) {
				p.deaf("session.detach", detachLimit)
			}
		}
		c.sweep(ctx, p)
	}
	p.remove(c.session)
}

// begin admits a run or a compaction; the caller calls c.running.Done.
func (c *conversation) begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return errClosed
	case c.gone:
		return &backends.Error{Type: events.ErrBackendCrashed, Message: "copilot has ended, or no longer listens"}
	}
	c.running.Add(1)
	return nil
}

func (c *conversation) giveUpLocked() {
	if !c.gone {
		c.gone = true
		close(c.done)
	}
}

// giveUp: the conversation takes no further run.
func (c *conversation) giveUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.giveUpLocked()
}

// lost: its process has ended.
func (c *conversation) lost() { c.giveUp() }

func (c *conversation) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// process gives the conversation's process, and starts it where it has none.
func (c *conversation) process(ctx context.Context) (*process, error) {
	c.mu.Lock()
	p := c.p
	dead := p != nil && p.peer.Err() != nil
	if dead {
		c.p = nil
	}
	c.mu.Unlock()
	switch {
	case dead: // it ended while the session was not open in it: nobody told us
		c.b.leave(p.slot)
		c.applied = ""
	case p != nil:
		return p, nil
	}
	if !c.login.usable() {
		return nil, &backends.Error{Type: events.ErrAuth, Message: whyNoLogin + ". " + hintLogin}
	}
	if err := c.b.provide(&c.login); err != nil {
		return nil, &backends.Error{Type: events.ErrAuth, Message: "the login can't be copied: " + err.Error()}
	}
	p, err := c.b.acquire(ctx, launch{bin: c.bin, env: c.cfg.Env, login: &c.login})
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.p = p
	c.mu.Unlock()
	return p, nil
}

// attach gives what the session says from now on to t; it must be called
// before the input that begins t is sent.
func (c *conversation) attach(t *turn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turn = t
}

func (c *conversation) detachTurn() {
	c.ended.Add(c.current().ids()...)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turn = nil
}

func (c *conversation) current() *turn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.turn
}

// alive says that the agent lives.
func (c *conversation) alive() {
	if t := c.current(); t != nil {
		t.alive()
	}
}

// event takes one event of the session; false: it is for nobody. The reader
// calls it.
func (c *conversation) event(e *event) bool {
	switch e.Type {
	case evResume:
		c.mu.Lock()
		c.inUse = e.Data.AlreadyInUse
		c.mu.Unlock()
	case evToolStart:
		if shellTools[e.Data.ToolName] {
			c.noteShell()
			if detached(e.Data.Arguments) {
				c.mu.Lock()
				c.detaches = true
				c.detached[e.Data.ToolCallID] = true
				c.mu.Unlock()
			}
		}
	case evToolComplete:
		c.mu.Lock()
		started := c.detached[e.Data.ToolCallID]
		delete(c.detached, e.Data.ToolCallID)
		c.mu.Unlock()
		if started {
			c.askLogs()
		}
	}
	if t := c.current(); t != nil && t.event(e) {
		return true
	}
	return c.outside(e)
}

// noteShell notes that a command was run that may have left something.
func (c *conversation) noteShell() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shells = true
}

// outside is what the session says between runs: a compaction that is shown,
// text of a turn that nobody asked for. False: it is for nobody.
func (c *conversation) outside(e *event) bool {
	var d events.Data
	switch {
	case e.Type == evCompactStart:
		d = events.Status{State: events.StateCompacting}
	case e.Type == evCompactDone && !e.Data.Success:
		d = events.Status{State: events.StateNotice, Detail: "copilot could not compact its memory: " + errorText(e.Data.Error)}
	case e.Type == evMessage && e.AgentID == "" && e.Data.Content != "":
		d = events.Status{State: events.StateNotice, Detail: "copilot said something outside of a run: " + excerpt(e.Data.Content)}
	case e.Type == evPermission:
		if p := c.proc(); p != nil {
			p.tell("session.permissions.handlePendingPermissionRequest", permissionAnswer{
				c.session, e.Data.RequestID, decision{Kind: "reject", Feedback: noRun},
			})
		}
		return true
	case e.Type == evExternal:
		if p := c.proc(); p != nil {
			p.tell("session.tools.handlePendingToolCall", toolAnswer{c.session, e.Data.RequestID, failed(noRun)})
		}
		return true
	default:
		return e.AgentID == "" && !ofTurn[e.Type]
	}
	c.mu.Lock()
	c.strays++
	say := worthSaying(c.strays)
	c.mu.Unlock()
	if say && c.cfg.Stray != nil {
		c.cfg.Stray(events.Event{Data: d})
	}
	return true
}

func (c *conversation) proc() *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.p
}

func excerpt(s string) string {
	const limit = 200
	if len(s) > limit {
		return s[:limit] + "…"
	}
	return s
}

var sessionForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)

// stored reports whether copilot has a session on its disk.
func (b *Backend) stored(session string) bool {
	if !sessionForm.MatchString(session) {
		return false
	}
	info, err := os.Stat(filepath.Join(b.home(), "session-state", session, "events.jsonl"))
	if errors.Is(err, fs.ErrPermission) {
		return true // it is another user's: copilot itself will say
	}
	return err == nil && info.Mode().IsRegular()
}

// save makes the session's id durable where it is new.
func (c *conversation) save() error {
	if c.saved == c.session || c.cfg.Save == nil {
		return nil
	}
	if err := c.cfg.Save(backends.Session{ID: c.session}); err != nil {
		return &backends.Error{Type: events.ErrStorage, Message: "the session could not be noted: " + err.Error()}
	}
	c.saved = c.session
	return nil
}

// prune keeps the logs of the last processes only: each writes its own.
func (b *Backend) prune() {
	const kept = 10
	_ = b.o.Children.In(b.home(), func(home *os.Root) error { // they may stay
		logs, _ := fs.Glob(home.FS(), "logs/process-*.log") // names begin with the time
		for _, old := range logs[:max(len(logs)-kept, 0)] {
			_ = home.Remove(old)
		}
		return nil
	})
}

func status(state, detail string) events.Status { return events.Status{State: state, Detail: detail} }
