package copilot

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"innerd/backends"
	"innerd/backends/internal/told"
	"innerd/events"
)

// turn is one run's part of a session: its inputs until all are answered. The
// goroutine that reads stdout owns it, under mu, until it is ended.
type turn struct {
	c           *conversation
	p           *process
	h           backends.Host
	tools       *toolset
	interactive bool
	maxTurns    int
	began       time.Time

	mu      sync.Mutex
	tr      *translator
	emitted int
	ended   bool // nothing more is reported
	begun   bool // copilot has begun with an input of this turn's
	quiet   bool // the model has stopped, and nothing that was put in waits
	putOff  bool // the model has stopped, but something that was put in waits
	gaveUp  *failure
	limited bool           // the last model turn that is allowed was had
	calls   int            // of that last turn, that have not ended
	posts   int            // of these, how many copilot says have run
	queues  map[string]int // calls of tools that must not run beside themselves, by tool
	waiting map[string][]func()
	cancels map[string]context.CancelFunc

	in    inputs
	first *input
	halt  halt

	ctx     context.Context // of the requests to the host
	stop    context.CancelFunc
	answers *backends.Aside // goroutines that wait for the host

	unlisted int // times that copilot did not say what runs in the background; of Run

	idle chan struct{} // holds a token when the turn got quiet
	over chan struct{} // closed when nothing of the turn is left
	mute chan unheard  // holds a call that copilot did not answer

	deaf *backends.Error // what came of that; of Run
}

// newTurn makes a turn; fail ends the run that it is.
func newTurn(ctx context.Context, fail context.CancelCauseFunc, c *conversation, p *process, h backends.Host, s *backends.Settings) *turn {
	pick, _ := told.ChoiceOf(s.ToolChoice)
	t := &turn{
		c: c, p: p, h: h, tools: newToolset(pick.Offered(s.Tools)), interactive: s.Interactive, maxTurns: s.MaxTurns, began: time.Now(),
		queues: map[string]int{}, waiting: map[string][]func(){}, cancels: map[string]context.CancelFunc{},
		first: newInput("", false), idle: make(chan struct{}, 1), over: make(chan struct{}),
		mute:    make(chan unheard, 1),
		answers: backends.NewAside(c.b.log, fail),
	}
	// Not the run's own context: when that ends, copilot must have been told to
	// stop before it hears that its requests were canceled, or it goes on.
	t.ctx, t.stop = context.WithCancel(context.WithoutCancel(ctx))
	t.tr = newTranslator(t.emit, t.silent)
	return t
}

func (t *turn) emit(d events.Data) {
	t.emitted++
	t.h.Emit(events.Event{Data: d})
}

// alive says that the agent lives.
func (t *turn) alive() { t.h.Emit(events.Event{}) }

// hosts reports whether a tool is the host's.
func (t *turn) hosts(tool string) bool {
	_, ok := t.tools.host(tool)
	return ok
}

// silent reports whether a tool's calls are told to the host in another way.
func (t *turn) silent(tool string) bool { return t.hosts(tool) || tool == toolAsk }

// locked runs f as the reader does; false: the turn has ended.
func (t *turn) locked(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return false
	}
	f()
	return true
}

// event takes one event of the session; false: the turn has ended, so that it
// is none of its. The reader calls it.
func (t *turn) event(e *event) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended || t.late(e) {
		return false
	}
	before := t.emitted
	switch {
	case e.Type == evPermission:
		t.permission(e)
	case e.Type == evExternal:
		t.hostCall(e)
	case e.Type == evExternalDone, e.Type == evPermDone:
		t.withdraw(e.Data.RequestID)
	case e.Type == evTodos:
		t.plan()
	case e.AgentID == "" && t.control(e):
	default:
		t.tr.event(e)
	}
	if t.emitted == before {
		t.alive()
	}
	return true
}

// control takes the events that say how far the turn is; false: the event is
// for the translator alone.
func (t *turn) control(e *event) bool {
	switch e.Type {
	case evUser:
		t.taken(&e.Data)
		return true
	case evAssistantIdle:
		t.stopped(e.Data.Aborted)
		return true
	case evIdle:
		t.rested(e.Data.Aborted)
		return true
	case evTurnStart:
		t.quiet, t.putOff = false, false
		t.tr.event(e)
		t.turnStart()
		return true
	case evMessage:
		t.tr.event(e)
		if t.maxTurns > 0 && t.tr.turns >= t.maxTurns {
			t.calls, t.posts = len(e.Data.ToolRequests), 0
			t.limited = t.calls > 0
		}
		return true
	case evToolComplete:
		t.tr.event(e)
		if t.limited {
			if t.calls--; t.calls <= 0 {
				t.abort()
			}
		}
		return true
	case evCallFailure:
		t.tr.event(e)
		t.callFailed()
		return true
	}
	return false
}

// taken: copilot begins with an input.
func (t *turn) taken(d *data) {
	if d.Source != "" && d.Source != "user" {
		return // copilot's own, of a schedule say
	}
	t.c.ended.Add(d.MessageID) // it is begun with once
	t.begun, t.quiet, t.putOff = true, false, false
	if x := t.in.take(d.MessageID); x != nil {
		t.steered(x)
	}
}

// steered says where an input came into the turn. Whoever waits for that is
// told afterwards: the run would say it once more if it were not said yet.
func (t *turn) steered(x *input) {
	if x.steer && !t.ended {
		t.tr.interrupt()
		t.emit(events.Steered{Text: x.text})
	}
	close(x.taken)
}

// stopped: the model has stopped. That is the turn's end unless an input that
// came late is still to be answered, which copilot does by itself.
func (t *turn) stopped(aborted bool) {
	switch {
	case aborted && !t.halt.on():
		return // by nobody we know; what follows decides
	case !aborted && !t.in.settled():
		t.putOff = true
		return
	}
	t.quiet = true
	select {
	case t.idle <- struct{}{}:
	default:
	}
}

// rested: nothing of the session runs any more. It is the turn's end too where it
// was not told that the model has stopped.
func (t *turn) rested(aborted bool) {
	switch {
	case t.halt.on() && aborted || t.quiet && t.in.close():
		t.finishLocked()
	case aborted && !t.begun: // of the turn before
	case aborted:
		t.tr.err = &failure{kind: kindAborted, text: "copilot aborted the turn, which nobody has asked it to"}
		t.stopped(false)
	default:
		t.stopped(false)
	}
}

// turnStart: one that begins although copilot was told to stop is told again.
// An abort that comes before copilot has begun with the input is lost.
func (t *turn) turnStart() {
	if t.halt.on() {
		t.tellAbort()
	}
}

// patience is the longest time that a provider's limit is waited for. Copilot
// would wait for minutes without a word; the host can do something else.
const patience = 15 * time.Second

// callFailed stops copilot where trying again cannot help, or was done enough.
func (t *turn) callFailed() {
	f, at := t.tr.failure, t.tr.failedAt
	switch {
	case f == nil || t.gaveUp != nil:
	case f.attempt >= t.c.b.retries() || f.final():
		t.gaveUp = f
		t.abort()
	case f.class() == events.ErrRateLimit:
		t.answers.Go(func() { // ends when the log was looked at
			if t.p.retryAfter(at) > patience {
				t.locked(func() {
					t.gaveUp = f
					t.abort()
				})
			}
		})
	}
}

// abort asks copilot to stop; any goroutine may.
func (t *turn) abort() {
	t.in.shut()
	t.halt.ask(t.tellAbort)
}

func (t *turn) tellAbort() {
	t.p.tellUntil("session.abort", sessionOnly{t.c.session}, t.overdue("session.abort", t.c.b.callLimit))
}

// sendAnswered takes the answer to the send that began the turn. The reader
// calls it.
func (t *turn) sendAnswered(raw json.RawMessage, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return
	}
	if err != nil {
		if t.p.peer.Err() != nil {
			return // its end is seen by everybody
		}
		t.tr.err = &failure{kind: "send", status: 400, text: err.Error()}
		t.in.shut()
		t.finishLocked()
		return
	}
	if t.in.named(t.first, messageID(raw)) {
		t.steered(t.first)
	}
	t.halt.answered(t.tellAbort)
}

// finishLocked: nothing of the turn is left, and nothing can be put in. What
// is reported from now on is reported by Run.
func (t *turn) finishLocked() {
	if !t.ended {
		t.ended = true
		close(t.over)
	}
}

// request asks the host and gives its answer to then, on a goroutine that ends
// with the request. id is copilot's, by which it may withdraw it; the answer
// of a withdrawn one is nobody's.
func (t *turn) request(id string, r events.Request, then func(events.Answer)) {
	t.requestThen(id, r, then, func() {})
}

// requestThen is request; after is called in the end, also for a withdrawn one.
func (t *turn) requestThen(id string, r events.Request, then func(events.Answer), after func()) {
	ctx, cancel := context.WithCancel(t.ctx)
	if id != "" {
		t.cancels[id] = cancel
	}
	t.emitted++
	pending := t.h.Request(ctx, r)
	t.answers.Go(func() { // ends when the host answers, or ctx ends
		defer after()
		defer cancel()
		a, _ := pending.Wait()
		if ctx.Err() == nil {
			then(a)
		}
	})
}

// withdraw: copilot does not want an answer any more, or has got it.
func (t *turn) withdraw(id string) {
	if cancel := t.cancels[id]; cancel != nil {
		delete(t.cancels, id)
		cancel()
	}
}

// inTurn runs f when no call of the tool is open. Under mu.
func (t *turn) inTurn(tool string, f func()) {
	t.queues[tool]++
	if t.queues[tool] == 1 {
		f()
		return
	}
	t.waiting[tool] = append(t.waiting[tool], f)
}

// nextInTurn begins the next call of a tool that must not run beside itself.
func (t *turn) nextInTurn(tool string) {
	t.locked(func() {
		t.queues[tool]--
		if q := t.waiting[tool]; len(q) > 0 {
			t.waiting[tool] = q[1:]
			q[0]()
		}
	})
}

// settle ends what the turn has asked of the host and waits for it. Nothing
// is emitted by the turn afterwards, but by Run.
func (t *turn) settle() {
	t.mu.Lock()
	t.ended = true
	t.in.shut()
	t.mu.Unlock()
	t.stop()
	t.answers.Wait()
}

func messageID(raw json.RawMessage) string {
	var r struct {
		MessageID string `json:"messageId"`
	}
	_ = lenient(json.Unmarshal(raw, &r)) // without one, the input counts as nameless
	return r.MessageID
}
