package claudecode

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"innerd/backends"
	"innerd/backends/internal/proc"
	"innerd/events"
)

// conversation is one session of claude's, and the process that has it open.
type conversation struct {
	b     *Backend
	cfg   backends.Config
	path  string
	login login

	// Runs go one after another: these are the current run's.
	session string
	saved   string // the session that Save has
	told    bool   // claude knows something of this session
	forkOf  string // the session that this one is a copy of, until claude has made it
	forked  string // why the next run's session is a copy; it is told then
	kept    string // the file of the session keptOf
	keptOf  string
	sealed  int64 // how much of the session's file is ours; 0: not known
	effort  string
	think   int
	denied  []string // tools of the host's that are gone

	mu      sync.Mutex
	run     *running        // nil between runs
	ours    map[string]bool // inputs that we have sent, by uuid
	p       *process        // nil before the first run, and while none is wanted
	gone    bool            // done is closed
	closed  bool
	done    chan struct{}
	watches sync.WaitGroup
	running sync.WaitGroup
}

func newConversation(b *Backend, cfg backends.Config, path string, l login) *conversation {
	return &conversation{b: b, cfg: cfg, path: path, login: l, session: newUUID(), done: make(chan struct{})}
}

// Done implements backends.Conversation.
func (c *conversation) Done() <-chan struct{} { return c.done }

// Lives implements backends.Lively.
func (c *conversation) Lives() bool { return c.current() != nil }

// Close implements backends.Conversation.
func (c *conversation) Close(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	p := c.p
	c.p = nil
	c.giveUpLocked()
	c.mu.Unlock()
	var err error
	if p != nil {
		err = p.stop(ctx)
	}
	c.running.Wait()
	c.watches.Wait()
	return err
}

var errClosed = errors.New("the conversation was closed")

// begin admits a run; the caller calls c.running.Done.
func (c *conversation) begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return errClosed
	case c.gone:
		return &backends.Error{Type: events.ErrBackendCrashed, Message: "claude has ended"}
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

func (c *conversation) current() *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.p
}

// answer is to a question whose answer may not be seen: claude may run as
// another user, whose files are its own.
type answer int

const (
	no answer = iota
	yes
	unseen
)

// stored reports whether claude has a session on its disk. It finds one
// whatever directory it was begun in.
func (c *conversation) stored(session string) answer {
	if !uuidForm.MatchString(session) {
		return no
	}
	_, there := c.sessionFile(session)
	return there
}

// sessionFile is where claude keeps a session.
func (c *conversation) sessionFile(session string) (string, answer) {
	projects := filepath.Join(c.b.configDir(), "projects")
	dirs, err := os.ReadDir(projects)
	if err != nil {
		return "", seen(err)
	}
	there := no
	for _, d := range dirs {
		path := filepath.Join(projects, d.Name(), session+".jsonl")
		_, err := os.Stat(path)
		if err == nil {
			return path, yes
		}
		there = max(there, seen(err))
	}
	return "", there
}

func seen(err error) answer {
	if errors.Is(err, fs.ErrPermission) {
		return unseen
	}
	return no
}

// resumes reports whether the next process goes on with the session.
func (c *conversation) resumes() bool {
	there := c.stored(c.session)
	return there == yes || there == unseen && c.told
}

// save makes the session's id durable where it is new.
func (c *conversation) save() error {
	if c.saved == c.session || c.cfg.Save == nil {
		return nil
	}
	if err := c.cfg.Save(backends.Session{ID: c.session, State: c.copyOf()}); err != nil {
		return &backends.Error{Type: events.ErrStorage, Message: "the session could not be noted: " + err.Error()}
	}
	c.saved = c.session
	return nil
}

// ready gives a process that has the turn's input, or is ready for it: the one
// that runs, if it was launched for such a turn, or a new one. Sent is whether
// it has the input.
func (c *conversation) ready(ctx context.Context, in *backends.Input, first *opening) (p *process, sent bool, err error) {
	model, foreign := c.login.chooseModel(in.Set.Model)
	if foreign != "" {
		first.t.notices = append(first.t.notices, "the model "+foreign+" is not one of Claude Code's; using "+orElse(model, "its default"))
	}
	hurry := first
	if in.Set.Effort != "" || in.Set.ThinkingTokens != 0 {
		hurry = nil // what can be set once claude runs must be set before
	}
	if p, sent, err = c.launched(ctx, launchOf(&in.Set, model), in.Set.Tools, hurry); err != nil || sent {
		return p, sent, err
	}
	first.t.alive() // the start is over, and was a success
	if c.forked != "" {
		first.t.emit(status(events.StateNotice, "the session is forked: "+c.forked+"; this conversation goes on in a copy, session "+c.session).Data)
		c.forked = ""
	}
	return p, false, c.tune(ctx, p, first.t.h, &in.Set)
}

// launched gives a process of that launch. Nothing is emitted before: it may
// turn out that claude has lost the session. A process that is started for a
// new session, where that cannot be, may be given its first input.
func (c *conversation) launched(ctx context.Context, l launch, tools []backends.Tool, first *opening) (p *process, sent bool, err error) {
	p = c.current()
	// Claude counts what it may spend from its start on.
	fits := p != nil && p.launch == l && (l.maxCost == 0 || p.unused()) && !p.outdated(tools)
	why := c.conflict(p, !fits)
	if fits && why == "" {
		if err := p.setTools(ctx, tools); err != nil {
			return nil, false, c.ended(p, err)
		}
		return p, false, nil
	}
	if p != nil {
		if err := c.retire(ctx, p); err != nil { // two processes would spoil the session
			return nil, false, &backends.Error{Type: events.ErrInternal, Message: "the claude before could not be ended: " + err.Error()}
		}
	}
	if why != "" {
		c.fork()
		c.forked = why
	}
	c.effort, c.think, c.denied = "", 0, nil
	p, sent, err = c.launch(ctx, l, tools, first)
	if errors.Is(err, errNoConversation) {
		if c.told {
			return nil, false, backends.ErrNewSession
		}
		c.session = newUUID() // an attempt before left a name and nothing in it
		p, sent, err = c.launch(ctx, l, tools, first)
	}
	return p, sent, err
}

// retire ends a process that another takes the place of.
func (c *conversation) retire(ctx context.Context, p *process) error {
	c.mu.Lock()
	if c.p == p {
		c.p = nil // so that its end is not the conversation's
	}
	c.mu.Unlock()
	return p.end(ctx)
}

// launch starts a process for this conversation's session, and gives it the
// first input at once where the session is new. The id is saved while the
// process starts, and before it is told anything: from there on claude may know it.
func (c *conversation) launch(ctx context.Context, l launch, tools []backends.Tool, first *opening) (p *process, sent bool, err error) {
	there := c.resumes()
	if there {
		c.forkOf = ""
	}
	if there || c.forkOf != "" {
		first = nil
	}
	env, secrets := c.environ(c.cfg.Env)
	c.trace(env)
	p = newProcess(l, newToolset(tools), &c.cfg, c.b)
	saved := make(chan error, 1)
	// It ends with the disk's work, which is waited for below.
	backends.NewAside(c.b.log, func(err error) { saved <- err }).Go(func() { saved <- c.save() })
	err = p.start(ctx, c.b.o.Children, proc.Command{
		Name: binaryName, Path: c.path, Args: l.args(c.session, there, c.forkOf, c.cfg.AddDirs), Dir: c.cfg.Dir,
		Env: c.b.o.Children.Environ(env), Conversation: c.cfg.ID, Secrets: secrets, Grace: c.cfg.Grace,
	})
	if unsaved := <-saved; unsaved != nil && err == nil {
		_ = p.child.Stop(context.WithoutCancel(ctx))
		err = unsaved
	}
	if err != nil {
		return nil, false, err
	}
	if first != nil {
		c.sent(first.t.uuid)
	}
	if err := p.initialize(ctx, first); err != nil {
		return nil, false, c.unsaid(p, first, err)
	}
	if !c.adopt(p) {
		_ = p.end(ctx)
		return nil, false, c.unsaid(p, first, errClosed)
	}
	return p, first != nil, nil
}

// unsaid undoes an opening, if there was one, whose process is of no use. What
// claude may have of it on its disk is nobody's: the next try has a session of
// its own.
func (c *conversation) unsaid(p *process, first *opening, err error) error {
	if first == nil {
		return err
	}
	p.detach()
	first.t.settle()
	first.t.tr.lost()
	if !c.told {
		c.session = newUUID()
	}
	if errors.Is(err, errNoConversation) { // it was asked for none
		return &backends.Error{Type: events.ErrInternal, Message: "claude looks for a session that it shall begin"}
	}
	return err
}

// adopt makes p the conversation's process; false: it was closed meanwhile.
func (c *conversation) adopt(p *process) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.p = p
	c.watches.Go(func() { c.watch(p) }) // ends with the process
	return true
}

// watch ends the conversation with its process, unless it was retired.
func (c *conversation) watch(p *process) {
	<-p.child.Done()
	p.sayLate()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.p == p {
		c.p = nil
		c.giveUpLocked()
	}
}

var efforts = []string{"low", "medium", "high", "xhigh", "max"}

// tune sets what can be set while claude runs.
func (c *conversation) tune(ctx context.Context, p *process, h backends.Host, s *backends.Settings) error {
	denied := p.withdrawn()
	if s.Effort != c.effort || !slices.Equal(denied, c.denied) {
		if err := c.set(ctx, p, h, "reasoning effort", flagsOf(h, s.Effort, denied)); err != nil {
			return err
		}
		c.effort, c.denied = s.Effort, denied
	}
	if s.ThinkingTokens != c.think {
		limit := thinkingRequest{Subtype: "set_max_thinking_tokens"}
		if s.ThinkingTokens > 0 {
			limit.Max = &s.ThinkingTokens
		}
		if err := c.set(ctx, p, h, "thinking tokens", limit); err != nil {
			return err
		}
		c.think = s.ThinkingTokens
	}
	return nil
}

// flagsOf are the settings that can be changed while claude runs.
func flagsOf(h backends.Host, effort string, denied []string) flagsRequest {
	var level *string // nil: its own default
	switch {
	case slices.Contains(efforts, effort):
		level = &effort
	case effort != "": // claude would ignore it without a word
		h.Emit(status(events.StateNotice, "claude knows no reasoning effort "+effort+"; using its default"))
	}
	return flagsRequest{"apply_flag_settings", flagSettings{level, permissionRules{denied}}}
}

// set changes one thing. That claude does not take it is no reason to fail.
func (c *conversation) set(ctx context.Context, p *process, h backends.Host, what string, request any) error {
	r, err := p.call(ctx, request)
	if errors.Is(err, errUnanswered) {
		return c.unanswered(ctx, p, "the request to set its "+what, p.limit)
	}
	if err != nil {
		return c.ended(p, err)
	}
	if r.Subtype == "error" {
		h.Emit(status(events.StateNotice, "claude does not take the "+what+": "+string(r.Error)))
	}
	return nil
}

// ended makes the end of a process that was ready into an error.
func (c *conversation) ended(p *process, err error) error {
	if !errors.Is(err, errEnded) {
		return err
	}
	return crashed(backends.Exit(p.child.Exit()), true)
}

func status(state, detail string) events.Event {
	return events.Event{Data: events.Status{State: state, Detail: detail}}
}
