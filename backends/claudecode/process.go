package claudecode

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"innerd/backends"
	"innerd/backends/internal/proc"
	"innerd/events"
)

const (
	startLimit = 60 * time.Second // from the start to the answer of initialize; starts are CPU-bound
	callLimit  = 30 * time.Second // for an answer that takes no model
	// inputLimit is for the first sign that claude has a turn's input, which begins
	// a run that is paid for: ten that start at once on a slow machine need 42 s.
	inputLimit = 2 * time.Minute
	eofLimit   = time.Second      // for an idle claude to end by itself
	endLimit   = 10 * time.Second // for all of its end
	maxNotices = 20               // of a kind before they are thinned out
	listLimit  = 5 * time.Second  // for claude to fetch a changed list of tools
)

// process is one claude. What it prints is read by one goroutine, which calls
// line; everything else may be called at the same time.
type process struct {
	log     *slog.Logger
	launch  launch
	dir     string // where it works
	unknown *backends.UnknownTypes
	models  func(json.RawMessage) // takes claude's answer to initialize
	limit   time.Duration         // for an answer that takes no model

	handling atomic.Int64 // 1 while line is at work

	mu      sync.Mutex
	child   *proc.Child
	turn    *turn // nil between runs
	next    *turn // whose input was sent before claude was ready
	used    bool  // there was a turn
	serves  bool  // claude has the server that the host's tools are in
	tools   *toolset
	told    map[string]string // what the model was told of each tool so far
	listed  chan struct{}     // closed when claude has fetched the tools
	seq     int
	waiting map[string]chan controlResponse // our requests that claude has not answered
	cancels map[string]context.CancelFunc   // claude's requests that we have not answered
	early   error                           // claude gave up before it took a turn
	moved   string                          // a session id that claude chose
	odd     int                             // what did not belong on stdout; the reader's
	strays  int                             // messages outside of a run; the reader's
	begins  bool                            // it says when it begins with an input
	late    int                             // lines for nobody, of a turn that has ended say

	stray func(events.Event)
}

func newProcess(l launch, tools *toolset, cfg *backends.Config, b *Backend) *process {
	p := &process{
		log: b.log.With("conversation", cfg.ID), unknown: &b.unknown, models: b.setModels, limit: b.callLimit, launch: l, dir: cfg.Dir, tools: tools, listed: make(chan struct{}), stray: cfg.Stray, told: map[string]string{},
		serves:  len(tools.tools) > 0, // it costs claude 25 ms of its start, and the model some words
		waiting: map[string]chan controlResponse{}, cancels: map[string]context.CancelFunc{},
	}
	p.tellLocked(tools)
	return p
}

// start runs the program. On an error no process is left.
func (p *process) start(ctx context.Context, children *backends.Children, cmd proc.Command) error {
	cmd.OnLine, cmd.OnNotice = p.line, p.notice
	child, err := children.Start(ctx, cmd)
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return &backends.Error{Type: events.ErrBackendUnavailable, Message: err.Error()}
	}
	p.mu.Lock()
	p.child = child
	p.mu.Unlock()
	return nil
}

// initialize waits until the process that was started is ready for input. A
// first input, if there is one, is sent before that: claude takes it as soon as
// it can. On any error no process is left.
func (p *process) initialize(ctx context.Context, first *opening) error {
	limited, cancel := context.WithTimeoutCause(ctx, startLimit, &backends.Error{
		Type: events.ErrBackendUnavailable, Message: "claude did not get ready in " + startLimit.String(),
	})
	defer cancel()
	ch := make(chan controlResponse, 1)
	id, err := p.ask(newInitialize(p.launch.system, p.serves), ch)
	if err == nil && first != nil {
		err = p.open(first)
	}
	var res controlResponse
	if err == nil {
		res, err = p.wait(limited, id, ch)
	}
	if err == nil && res.Subtype != "error" {
		p.models(res.Response)
		return nil
	}
	_ = p.child.Stop(context.WithoutCancel(ctx)) // it is of no use to anybody, and has its own grace
	switch {
	case p.earlyError() != nil:
		return p.earlyError()
	case errors.Is(err, errEnded):
		return crashed(backends.Exit(p.child.Exit()), false)
	case err != nil:
		return err
	}
	return &backends.Error{Type: events.ErrInvalidRequest, Message: "claude refused its set-up: " + string(res.Error)}
}

var errEnded = errors.New("claude has ended")

// call sends a control request that takes no model and waits for its answer.
// errUnanswered: none came in time.
func (p *process) call(ctx context.Context, request any) (controlResponse, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := backends.Overdue(p.limit, p.busy, func() { cancel(errUnanswered) })
	defer stop()
	ch := make(chan controlResponse, 1)
	id, err := p.ask(request, ch)
	if err != nil {
		return controlResponse{}, err
	}
	return p.wait(ctx, id, ch)
}

// wait waits for the answer to a request.
func (p *process) wait(ctx context.Context, id string, ch chan controlResponse) (controlResponse, error) {
	select {
	case r := <-ch:
		return r, nil
	case <-p.child.Done():
		select {
		case r := <-ch: // it came before
			return r, nil
		default:
			return controlResponse{}, errEnded
		}
	case <-ctx.Done():
		p.mu.Lock()
		delete(p.waiting, id)
		p.mu.Unlock()
		return controlResponse{}, context.Cause(ctx)
	}
}

// ask sends a control request; its answer goes into ch, which may be nil.
func (p *process) ask(request any, ch chan controlResponse) (string, error) {
	p.mu.Lock()
	p.seq++
	id := "innerd_" + strconv.Itoa(p.seq)
	if ch != nil {
		p.waiting[id] = ch
	}
	p.mu.Unlock()
	return id, p.send(outRequest{Type: lineControlRequest, RequestID: id, Request: request})
}

// answer answers a control request of claude's. One that comes too late, or
// for a process that has ended, does no harm.
func (p *process) answer(b outBody) {
	if err := p.send(outResponse{Type: lineControlResponse, Response: b}); err != nil && !errors.Is(err, errEnded) {
		p.log.Warn("an answer could not be given to claude", "err", err)
	}
}

func (p *process) send(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	p.mu.Lock()
	child := p.child
	p.mu.Unlock()
	if child == nil {
		return errEnded
	}
	if err := child.Send(b); err != nil {
		if errors.Is(err, proc.ErrClosed) {
			return errEnded
		}
		return err
	}
	return nil
}

// say sends a message of the user's, which is text whatever it says.
func (p *process) say(uuid string, content []inBlock) error {
	return p.send(outUser{Type: lineUser, Message: outMessage{Role: "user", Content: content}, UUID: uuid, Composed: true})
}

// command has claude run one of its own commands.
func (p *process) command(uuid, text string) error {
	return p.send(outUser{Type: lineUser, Message: outMessage{Role: "user", Content: text}, UUID: uuid})
}

// stop ends the process and waits until nothing of it is left. One that is not
// in a turn is given its EOF first, the end that claude likes best.
func (p *process) stop(ctx context.Context) error {
	p.mu.Lock()
	child, idle := p.child, p.turn == nil
	p.mu.Unlock()
	if idle {
		child.CloseInput()
		limit := time.NewTimer(eofLimit)
		defer limit.Stop()
		select {
		case <-child.Done():
			return nil
		case <-limit.C:
		case <-ctx.Done():
		}
	}
	return child.Stop(ctx)
}

// end is stop for those who can't do anything about its failure, and whose own
// context may have ended.
func (p *process) end(ctx context.Context) error {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), endLimit)
	defer cancel()
	err := p.stop(limited)
	if err != nil {
		p.log.Error("claude could not be ended", "err", err)
	}
	return err
}

func (p *process) earlyError() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.early
}

// unused reports whether no turn has run in it.
func (p *process) unused() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.used
}

// detach ends that. The reader calls it when the turn is over; others only
// when the process has ended.
func (p *process) detach() {
	p.mu.Lock()
	p.turn, p.next = nil, nil
	p.mu.Unlock()
}

// busy reports whether a line is being handled: what came behind it is not known yet.
func (p *process) busy() bool { return p.handling.Load() > 0 }

// line takes one line of stdout.
func (p *process) line(b []byte) {
	p.handling.Add(1)
	defer p.handling.Add(-1)
	p.mu.Lock()
	t := p.turn
	p.mu.Unlock()
	l, err := decode(b)
	if err != nil {
		if len(bytes.TrimSpace(b)) > 0 {
			p.oddLine(t, b)
		}
		return
	}
	if !known(l) {
		p.countUnknown(l)
	}
	if p.opens(l) {
		t = p.attachNext()
	}
	whose := t
	if t != nil && t.late(l) {
		whose = nil
	}
	if t != nil && l.Type != lineControlResponse {
		t.heard.Store(true)
	}
	switch l.Type {
	case lineControlResponse:
		p.resolve(l.Response)
	case lineControlRequest:
		p.request(whose, l)
	case lineControlCancel:
		p.cancel(l.RequestID)
	default:
		p.note(l, whose == nil)
		if whose != nil {
			t.line(p, l)
			return
		}
	}
	if t != nil {
		t.alive()
	}
}

// note keeps what matters whether there is a turn or not.
func (p *process) note(l *line, outside bool) {
	p.tells(l, outside)
	switch {
	case l.Type == lineReset, l.Type == lineSystem && l.Subtype == "init":
		p.mu.Lock()
		p.moved = l.SessionID
		p.mu.Unlock()
	case l.Type == lineResult && outside:
		if err := failed(&l.result, nil); err != nil {
			p.mu.Lock()
			p.early = err
			p.mu.Unlock()
		}
	case l.Type == lineAssistant && outside && p.stray != nil:
		if p.strays++; !worthSaying(p.strays) {
			return
		}
		p.stray(events.Event{Data: events.Status{
			State: events.StateNotice, Detail: "claude said something outside of a run: " + excerpt([]byte(textOf(l.Message.Content))),
		}})
	}
}

// session is the id under which claude keeps the conversation, "" if it has
// not said.
func (p *process) session() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.moved
}

func (p *process) resolve(r controlResponse) {
	p.mu.Lock()
	ch := p.waiting[r.RequestID]
	delete(p.waiting, r.RequestID)
	p.mu.Unlock()
	if ch != nil {
		ch <- r
	}
}
