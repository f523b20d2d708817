package copilot

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"innerd/backends"
	"innerd/backends/internal/proc"
	"innerd/backends/internal/rpc"
	"innerd/events"
)

const (
	startLimit = 60 * time.Second // from the start to the answer of connect; starts are CPU-bound
	eofLimit   = 2 * time.Second  // for an idle copilot to end by itself
	endLimit   = 10 * time.Second // for all of its end
	pingLimit  = 2 * time.Second  // for a copilot that lives to say so
	callLimit  = 30 * time.Second // for a call that asks no model
	inputLimit = 2 * time.Minute  // for input to be taken: a run in vain is dear, and a machine may be slow
	maxNotices = 20               // of a kind before they are thinned out
)

// process is one copilot. What it prints is read by one goroutine, which calls
// notification and request; everything else may be called at the same time.
type process struct {
	b     *Backend
	log   *slog.Logger
	slot  *slot
	child *proc.Child
	peer  *rpc.Peer

	mu    sync.Mutex
	convs map[string]*conversation // by session
	late  int                      // events for nobody: of turns that have ended, of sessions that nobody has
	odd   int                      // what did not belong on stdout
	ready bool
	why   string // we have ended it; "" where it ends by itself

	heard atomic.Int64 // messages for conversations

	gone chan struct{} // closed when it has ended and all conversations know
}

// start runs the program and waits until it is ready for sessions. On any
// error no process is left.
func (b *Backend) start(ctx context.Context, l launch, s *slot) (*process, error) {
	p := &process{
		b: b, log: b.log, slot: s, convs: map[string]*conversation{}, gone: make(chan struct{}),
	}
	p.peer = rpc.New(rpc.Options{
		Framing: rpc.Headers, Skip: p.passedOver, Notification: p.notification, Request: p.request, Garbage: p.garbage,
		Send: func(frame []byte) error { return p.child.Send(frame) },
	})
	b.prune()
	args := []string{"--headless", "--no-auto-update", "--stdio", "--log-level", "warning"}
	if l.login.file == "" {
		args = append(args, "--no-auto-login")
	}
	child, err := b.o.Children.Start(ctx, proc.Command{
		Name: binaryName, Path: l.bin.path, Args: args, Dir: b.home(),
		Env:     b.o.Children.Environ(b.environ(l.env, l.bin)),
		OnStart: func(c *proc.Child) { p.child = c },
		OnStdout: func(r io.Reader) {
			if err := p.peer.ReadFrames(r); err != nil {
				p.log.Warn("reading copilot failed", "err", err)
			}
		},
	})
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, &backends.Error{Type: events.ErrBackendUnavailable, Message: err.Error()}
	}
	go p.watch(child) // ends with the child
	if err := p.connect(ctx); err != nil {
		_ = child.Stop(context.WithoutCancel(ctx)) // it is of no use to anybody, and has its own grace
		<-p.gone
		return nil, err
	}
	return p, nil
}

func (p *process) connect(ctx context.Context) error {
	limited, cancel := context.WithTimeoutCause(ctx, startLimit, &backends.Error{
		Type: events.ErrBackendUnavailable, Message: "copilot did not get ready in " + startLimit.String(),
	})
	defer cancel()
	var hello struct {
		Protocol int    `json:"protocolVersion"`
		Version  string `json:"version"`
	}
	if err := p.peer.Call(limited, "connect", connectParams{[]string{"agent", "client", "shell"}}, &hello); err != nil {
		return callError(ctx, err, events.ErrBackendUnavailable)
	}
	if hello.Version != Version {
		p.log.Warn("this is not the copilot that innerd was tested with", "version", hello.Version, "pinned", Version)
	}
	p.mu.Lock()
	p.ready = true
	p.mu.Unlock()
	return nil
}

// callError is a failed call as Run and Open return it: the process's death,
// the end of ctx, or copilot's own words under class.
func callError(ctx context.Context, err error, class string) error {
	var ours *backends.Error
	var theirs *rpc.Error
	switch {
	case errors.As(err, &ours):
		return ours
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &theirs):
		f := failure{text: theirs.Message}
		if c := classOfText(theirs.Message); c != "" {
			class = c
		}
		return &backends.Error{Type: class, Message: f.text}
	}
	return &backends.Error{Type: class, Message: err.Error()}
}

// watch tells everybody that the process has ended. What it had printed before
// was read then.
func (p *process) watch(child *proc.Child) {
	exit := backends.Exit(child.Exit())
	p.b.drop(p.slot)
	p.mu.Lock()
	ready, why, all := p.ready, p.why, maps.Clone(p.convs)
	late := p.late
	p.mu.Unlock()
	p.peer.Close(crashed(exit, ready, why))
	for _, c := range all {
		c.lost()
	}
	if late > 0 {
		p.log.Info("copilot has ended; some of what it said was for nobody", "late_events", late)
	}
	close(p.gone)
}

// add lets a session's events through to its conversation.
func (p *process) add(session string, c *conversation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.convs[session] = c
}

func (p *process) remove(session string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.convs, session)
}

func (p *process) conversation(session string) *conversation {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.convs[session]
}

func (p *process) notification(method string, params json.RawMessage) {
	if method != "session.event" {
		return // session.lifecycle, one for each event
	}
	var n notice
	if lenient(json.Unmarshal(params, &n)) != nil || len(n.Event) == 0 {
		p.garbage("an event without a session")
		return
	}
	c := p.hears(n.SessionID)
	if c == nil {
		p.countLate()
		return
	}
	typ := typeOf(n.Event)
	if typ != "" && !handled[typ] {
		if !known[typ] {
			p.stranger(typ)
		}
		c.alive()
		return
	}
	e, err := decode(n.Event)
	if err != nil {
		p.garbage("an event that is no object")
		return
	}
	if !c.event(e) {
		p.countLate()
	}
}

// countLate counts what is for nobody.
func (p *process) countLate() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.late++
}

// stranger counts an event of a type that nobody knows.
func (p *process) stranger(typ string) {
	if p.b.unknown.Add(typ) {
		p.log.Warn("copilot sends events of a type that is not known", "type", typ)
	}
}

// request answers what copilot asks. It runs on the goroutine that reads
// stdout: what waits for the host gets one of its own.
func (p *process) request(r *rpc.Request) bool {
	switch r.Method {
	case "hooks.invoke":
		p.hook(r)
	case "userInput.request":
		var q question
		_ = lenient(json.Unmarshal(r.Params, &q)) // without a session it is answered as one of nobody
		if c := p.hears(q.SessionID); c != nil {
			c.ask(r, &q)
		} else {
			_ = r.Respond(userAnswer{Answer: noUser, Freeform: true})
		}
	default:
		return false
	}
	return true
}

// garbage is told of what does not belong on stdout.
func (p *process) garbage(what string) {
	p.mu.Lock()
	p.odd++
	odd := p.odd
	p.mu.Unlock()
	if !worthSaying(odd) {
		return
	}
	p.log.Warn("copilot printed something that is no message", "bytes", len(what), "count", odd)
	p.everybody(status(events.StateNotice, "copilot printed what is no message: "+excerpt(what)))
}

// everybody tells all turns what is of no session.
func (p *process) everybody(d events.Data) {
	p.mu.Lock()
	all := slices.Collect(maps.Values(p.convs))
	p.mu.Unlock()
	for _, c := range all {
		if t := c.current(); t != nil {
			t.locked(func() { t.emit(d) })
		}
	}
}

// worthSaying thins out what an agent can say without end: after the first
// ones, each time the count has doubled.
func worthSaying(count int) bool { return count <= maxNotices || count&(count-1) == 0 }

// tell makes a call whose answer only matters where it is a refusal, or does
// not come.
func (p *process) tell(method string, params any) {
	p.tellUntil(method, params, backends.Overdue(p.b.callLimit, p.peer.Handling, func() { p.deaf(method, p.b.callLimit) }))
}

// tellUntil is tell; answered is called when the answer has come.
func (p *process) tellUntil(method string, params any, answered func()) {
	_, err := p.peer.Go(method, params, func(_ json.RawMessage, err error) {
		answered()
		var refused *rpc.Error
		if errors.As(err, &refused) {
			p.log.Warn("copilot refused a call", "method", method, "err", refused.Message)
		}
	})
	if err == nil {
		return
	}
	answered()
	if p.peer.Err() == nil {
		p.log.Warn("copilot could not be told something", "method", method, "err", err)
	}
}

// call is a call with a limit.
func (p *process) call(ctx context.Context, limit time.Duration, method string, params, result any) error {
	limited, cancel := context.WithTimeoutCause(ctx, limit, errUnanswered)
	defer cancel()
	return p.peer.Call(limited, method, params, result)
}

// alive reports whether the process answers at all. Where what it has said is
// still being handled, by a log that waits for its disk say, that is not known,
// and is taken for a yes.
func (p *process) alive() bool {
	return p.call(context.Background(), pingLimit, "ping", struct{}{}, nil) == nil || p.peer.Handling()
}

// kill ends a process that does not answer, and waits until its conversations
// know. why is told in every run that is in it.
func (p *process) kill(why string) {
	p.log.Error(why + "; ending it")
	p.mu.Lock()
	if p.why == "" {
		p.why = why + "; it was ended"
	}
	p.mu.Unlock()
	now, cancel := context.WithCancel(context.Background())
	cancel() // it has had its grace
	_ = p.child.Stop(now)
	<-p.gone
}

// end ends a process that no conversation needs: by the end of its input, the
// end that copilot likes best, else by force.
func (p *process) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endLimit)
	defer cancel()
	p.child.CloseInput()
	limit := time.NewTimer(eofLimit)
	defer limit.Stop()
	select {
	case <-p.gone:
		return
	case <-limit.C:
	}
	if err := p.child.Stop(ctx); err != nil {
		p.log.Error("copilot could not be ended", "err", err)
		return
	}
	<-p.gone
}
