package claudecode

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"innerd/backends"
	"innerd/events"
)

// turn is one run's part of a process: what is put in until all of it is
// answered and nothing of it runs on. The goroutine that reads stdout owns it
// until over is closed, or the process has ended; what stands below mu is
// shared with Steer and with Run, which waits.
type turn struct {
	h           backends.Host
	uuid        string // of the input that began it
	interactive bool
	waits       bool // for background work; else that is ended
	began       time.Time
	notices     []string // told at its beginning
	begun       bool     // claude has begun with that input, or is one that does not say so

	tr      *translator
	tally   tally
	emitted int
	compact *compaction // it is no run, but a compaction

	ctx     context.Context // of the requests to the host
	end     context.CancelFunc
	answers *backends.Aside // goroutines that wait for the host

	// How the last result ended: of more than one where input was added, or
	// where claude went on by itself after background work.
	result *result
	err    error
	reason string

	over   chan struct{}
	gaveUp bool            // claude was ended for its background work; all inputs were answered
	heard  atomic.Bool     // claude has said something since
	deaf   *backends.Error // it has not, and was ended

	mu        sync.Mutex
	inputs    map[string]*input // not answered yet, by uuid
	live      map[string]bool   // background work that runs, and whether it was asked to stop
	worked    bool              // there was background work: claude may go on by itself until it is idle
	stopping  bool              // background work is not waited for any more
	halted    bool              // claude was interrupted: it does not go on by itself
	idle      bool              // as claude said last
	withdrawn bool              // the input was taken back before claude began with it
	closed    bool              // nothing can be added any more
	left      chan struct{}     // closed when only background work is left
}

// input is a message to claude that it has not answered.
type input struct {
	steered bool
	text    string
	taken   chan struct{} // closed when claude has it, or will never have it
	lost    bool          // it never will
}

// newTurn makes a turn; fail ends the run that it is.
func (c *conversation) newTurn(ctx context.Context, fail context.CancelCauseFunc, h backends.Host, uuid string, s *backends.Settings) *turn {
	t := &turn{
		h: h, uuid: uuid, interactive: s.Interactive, waits: s.Background == backends.BackgroundWait, began: time.Now(),
		over: make(chan struct{}), left: make(chan struct{}), live: map[string]bool{},
		inputs: map[string]*input{uuid: {taken: make(chan struct{})}}, answers: backends.NewAside(c.b.log, fail),
	}
	// Not the run's own context: when that ends, claude must have been told to
	// stop before it hears that its requests were canceled, or it goes on.
	t.ctx, t.end = context.WithCancel(context.WithoutCancel(ctx))
	t.tr = newTranslator(t.emit, t.silent)
	t.tr.schema = len(given(s.Schema)) > 0
	t.tr.more = t.more
	return t
}

func (t *turn) emit(d events.Data) {
	t.emitted++
	t.h.Emit(events.Event{Data: d})
}

// alive says that the agent lives.
func (t *turn) alive() { t.h.Emit(events.Event{}) }

// silent reports whether a tool's calls are told to the host in another way.
func (t *turn) silent(tool string) bool {
	return isHostTool(tool) || tool == toolAsk && t.interactive
}

// line takes one line of stdout.
func (t *turn) line(p *process, l *line) {
	before := t.emitted
	switch {
	case t.compact != nil:
		t.compact.line(t, l)
	case l.Type == lineLifecycle:
		t.lifecycle(l)
	case l.Type == lineResult:
		t.resulted(&l.result)
	default:
		t.background(l)
		t.tr.line(l)
	}
	over, stop := t.step(l)
	t.stop(p, stop)
	if over {
		t.tr.endAgents()
		p.detach()
		close(t.over) // from here on the turn belongs to Run
		return
	}
	if t.emitted == before {
		t.alive()
	}
}

// lifecycle follows what becomes of an input.
func (t *turn) lifecycle(l *line) {
	t.mu.Lock()
	in := t.inputs[l.CommandUUID]
	t.mu.Unlock()
	switch {
	case in == nil:
	case l.State == "started":
		if in.steered {
			t.emit(events.Steered{Text: in.text}) // before Steer returns
		}
		closeOnce(in.taken)
	case l.State == "cancelled":
		t.mu.Lock()
		delete(t.inputs, l.CommandUUID)
		t.withdrawn = t.withdrawn || l.CommandUUID == t.uuid
		in.lost = true
		t.mu.Unlock()
		closeOnce(in.taken)
	}
}

// resulted takes the end of one of claude's own turns. That is not the end of
// ours as long as an input is left, or background work.
func (t *turn) resulted(r *result) {
	t.tally.add(r)
	if !t.answered(r) && r.NumTurns == 0 {
		return // of something that claude did by itself, without the model
	}
	t.result, t.reason, t.err = r, t.tr.reason(r), t.tr.failed(r)
	t.tr.finish(r, t.err == nil)
}

// answered takes away the inputs that a result is the end of.
func (t *turn) answered(r *result) (some bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for uuid, in := range t.inputs {
		if !r.answers(uuid, in.isTaken()) {
			continue
		}
		some = true
		delete(t.inputs, uuid)
		closeOnce(in.taken)
	}
	return some
}

func (in *input) isTaken() bool {
	select {
	case <-in.taken:
		return true
	default:
		return !in.steered
	}
}

// more reports whether another message may follow the one that ends.
func (t *turn) more() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, in := range t.inputs {
		if !in.isTaken() {
			return true
		}
	}
	return len(t.live) > 0 && t.waits && !t.stopping
}

// step is the one place that decides whether the turn is over. It also gives
// the background work that shall be stopped now.
func (t *turn) step(l *line) (over bool, stop []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	changed := l.Type == lineSystem && l.Subtype == "session_state_changed"
	if changed {
		t.idle = l.State == "idle"
	}
	switch {
	case t.closed || len(t.inputs) > 0:
		return false, nil
	case len(t.live) > 0:
		closeOnce(t.left)
		return false, t.unstoppedLocked()
	case t.worked:
		// What ended in the background may still have claude go on: it is idle
		// when not, and says so anew. One that was interrupted may have said it before.
		over = t.idle && (changed || t.halted)
	default:
		over = true
	}
	t.closed = over
	return over, nil
}

// request asks the host and gives its answer to then, on a goroutine that ends
// with the request. keys are the ids under which claude may withdraw it; the
// answer of a withdrawn one is nobody's.
func (t *turn) request(p *process, keys []string, r events.Request, then func(events.Answer)) {
	ctx, cancel := context.WithCancel(t.ctx)
	p.remember(keys, cancel)
	pending := t.h.Request(ctx, r)
	t.answers.Go(func() { // ends when the host answers, or ctx ends
		defer cancel()
		a, _ := pending.Wait()
		withdrawn := ctx.Err() != nil
		p.forget(keys)
		if !withdrawn {
			then(a)
		}
	})
}

// settle ends what the turn has asked of the host, and the steering that
// waits, and waits for it. Nothing is emitted by the turn afterwards.
func (t *turn) settle() {
	t.mu.Lock()
	t.closed = true
	for _, in := range t.inputs {
		select {
		case <-in.taken:
		default:
			in.lost = true
			close(in.taken)
		}
	}
	t.mu.Unlock()
	t.end()
	t.answers.Wait()
}

// adjusted is the input of one of claude's tools as it shall run. Agents run
// in the background unless told otherwise, and nobody would wait for them.
func (t *turn) adjusted(tool string, in json.RawMessage) json.RawMessage {
	if tool != toolAgent || t.waits {
		return in
	}
	var m map[string]json.RawMessage
	if json.Unmarshal(in, &m) != nil || m == nil || m[inBackground] != nil {
		return in
	}
	m[inBackground] = json.RawMessage("false")
	out, err := json.Marshal(m)
	if err != nil {
		return in
	}
	return out
}
