package claudecode

import (
	"context"
	"sync"
	"time"

	"innerd/backends"
	"innerd/events"
)

// turn is one run's part of a process: one input until it is answered. The
// goroutine that reads stdout owns it until over is closed, or the process has
// ended.
type turn struct {
	h           backends.Host
	uuid        string
	interactive bool
	began       time.Time

	tr      *translator
	tally   tally
	emitted int

	ctx     context.Context // of the requests to the host
	end     context.CancelFunc
	answers sync.WaitGroup // goroutines that wait for the host

	result    *result // that ended it
	withdrawn bool    // the input was taken back before claude began with it
	over      chan struct{}
}

func newTurn(ctx context.Context, h backends.Host, uuid string, s *backends.Settings) *turn {
	t := &turn{h: h, uuid: uuid, interactive: s.Interactive, began: time.Now(), over: make(chan struct{})}
	// Not the run's own context: when that ends, claude must have been told to
	// stop before it hears that its requests were canceled, or it goes on.
	t.ctx, t.end = context.WithCancel(context.WithoutCancel(ctx))
	t.tr = newTranslator(t.emit, t.silent)
	t.tr.schema = len(s.Schema) > 0
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

func (t *turn) line(p *process, l *line) {
	before := t.emitted
	if t.last(l) {
		p.detach()
		close(t.over) // from here on the turn belongs to Run
		return
	}
	if l.Type != lineResult {
		t.tr.line(l)
	}
	if t.emitted == before {
		t.alive()
	}
}

// last takes a line that ends the turn. A result of something else, of work
// that claude began by itself, only counts.
func (t *turn) last(l *line) bool {
	switch {
	case l.Type == lineLifecycle && l.CommandUUID == t.uuid && l.State == "cancelled":
		t.withdrawn = true
		return true
	case l.Type == lineResult:
		t.tally.add(&l.result)
		if !l.result.answers(t.uuid) {
			return false
		}
		t.result = &l.result
		t.tr.finish(t.result)
		return true
	}
	return false
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

// settle ends what the turn has asked of the host and waits for it. Nothing
// is emitted by the turn afterwards.
func (t *turn) settle() {
	t.end()
	t.answers.Wait()
}
