package codex

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"innerd/backends"
	"innerd/backends/internal/rpc"
	"innerd/events"
)

// turn is one run's part of a thread: from turn/start until nothing of it is
// left. mu is held by whoever works on it: the goroutine that reads, which
// makes the events, and at the end the run.
type turn struct {
	c           *conversation
	s           *server
	h           backends.Host
	tools       *toolset
	interactive bool
	schema      bool
	noTools     bool // nothing may be called
	background  string
	maxTurns    int

	ctx     context.Context // of the requests to the host
	end     context.CancelFunc
	answers *backends.Aside // goroutines that wait for the host

	mute  chan silence    // gets what was not answered in time
	heard int64           // what had come for other conversations at the beginning
	deaf  *backends.Error // what came of that; Run's

	started  chan struct{} // codex can be told to stop it
	over     chan struct{} // turn/completed, or it never began
	calm     chan struct{} // over, and nothing runs on in the background
	mu       sync.Mutex
	naming   sync.Mutex // around id where it is set: it is read without mu too
	id       string
	answered string // the id that turn/start was answered with
	begun    bool
	ended    bool
	quiet    bool // calm is closed
	settled  bool // nothing is asked of the host any more
	finished bool // the run has returned, or is about to
	emitted  int

	tr      *translator
	subs    map[string]*subagent // by thread
	spawns  map[string]string    // call → thread
	prompts map[string]string    // by thread
	tally   tally
	turns   int       // of the model
	calls   int       // since the last of them ended
	limit   string    // the reason why we stopped it
	result  *turnInfo // that ended it
	refused error     // of turn/start
	doom    *backends.Error
}

// newTurn makes a turn; fail ends the run that it is a part of.
func newTurn(ctx context.Context, fail context.CancelCauseFunc, c *conversation, s *server, h backends.Host, ts *toolset, set *backends.Settings) *turn {
	t := &turn{
		c: c, s: s, h: h, tools: ts, interactive: set.Interactive, schema: len(set.Schema) > 0,
		background: set.Background, maxTurns: set.MaxTurns,
		started: make(chan struct{}), over: make(chan struct{}), calm: make(chan struct{}), subs: map[string]*subagent{},
		mute: make(chan silence, 1), heard: s.heardBeside(c),
		spawns: map[string]string{}, prompts: map[string]string{}, answers: backends.NewAside(c.b.log, fail),
	}
	c.mu.Lock()
	t.tally = tally{began: time.Now(), base: c.total, total: c.total}
	c.mu.Unlock()
	// Not the run's own context: when that ends, codex must have been told to
	// stop before it hears that its requests were canceled, or it goes on.
	t.ctx, t.end = context.WithCancel(context.WithoutCancel(ctx))
	t.tr = newTranslator(t.emit)
	return t
}

func (t *turn) emit(d events.Data) {
	t.emitted++
	switch d.(type) {
	case events.MessageDelta, events.ReasoningDelta:
		t.tally.first()
	}
	t.h.Emit(events.Event{Data: d})
}

// send begins the turn. Its answer comes on the goroutine that reads.
func (t *turn) send(p turnParams) {
	answered := t.overdue("turn/start", t.c.b.inputLimit, t.started)
	_, err := t.s.peer.Go("turn/start", p, func(raw json.RawMessage, err error) {
		answered()
		t.mu.Lock()
		defer t.mu.Unlock()
		var r struct {
			Turn turnInfo `json:"turn"`
		}
		if err == nil {
			err = decode(raw, &r)
		}
		switch {
		case err != nil:
			t.refused = err
			t.overLocked()
		case r.Turn.ID != "" && !t.c.ended.Has(r.Turn.ID): // another one was told of before, perhaps, that nobody knows
			t.name(r.Turn.ID)
			t.answered = r.Turn.ID
			if t.c.notOwn(r.Turn.ID) { // it began before its answer, and was taken for a compaction
				t.beginLocked()
			}
		}
	})
	if err != nil { // its end is seen by whoever waits, or it takes no more
		answered()
		t.mu.Lock()
		defer t.mu.Unlock()
		t.refused = err
		t.overLocked()
	}
}

// name sets the turn's id. Under mu.
func (t *turn) name(id string) {
	t.naming.Lock()
	defer t.naming.Unlock()
	t.id = id
}

// turnID waits for nothing, least of all for a log.
func (t *turn) turnID() string {
	t.naming.Lock()
	defer t.naming.Unlock()
	return t.id
}

// take handles a notification; false: it is none of this turn's. base is the
// thread's total before it.
func (t *turn) take(r *route, method string, n *notification, base counts) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.finished {
		return false
	}
	before := t.emitted
	if r.agent != "" {
		t.subagent(r.agent, method, n)
	} else if !t.main(method, n, base) {
		return false
	}
	if t.emitted == before && n.ThreadID != "" { // not what is told to everybody
		t.h.Emit(events.Event{}) // it lives
	}
	t.calmLocked()
	return true
}

// ids are those of codex's turns that are a part of this one.
func (t *turn) ids() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := []string{t.id}
	for _, a := range t.subs {
		all = slices.AppendSeq(all, maps.Keys(a.turns))
	}
	return all
}

// methodUsage tells what a thread has used in all its turns.
const methodUsage = "thread/tokenUsage/updated"

// ofTurn reports whether a message of this kind always says whose turn's it is.
func ofTurn(method string) bool {
	return strings.HasPrefix(method, "item/") || strings.HasPrefix(method, "turn/") || method == "error" || method == methodUsage
}

// main handles what comes of the conversation's own thread.
func (t *turn) main(method string, n *notification, base counts) bool {
	if method == "turn/started" && n.TurnID != "" {
		switch {
		case n.TurnID != t.answered && t.c.compactsNext():
			return false
		case !t.begun, n.TurnID == t.answered:
			t.name(n.TurnID) // what begins now is this turn, whatever the answer named
			t.beginLocked()
			return true
		}
	}
	if n.TurnID == "" && ofTurn(method) {
		return false
	}
	if n.TurnID != "" && n.TurnID != t.id {
		if method == methodUsage { // of the turns before, told when the thread is resumed
			t.tally.base, t.tally.total = n.TokenUsage.Total, n.TokenUsage.Total
		}
		return false
	}
	switch method {
	case "turn/completed":
		t.completedLocked(n)
	case methodUsage:
		t.usage(n.TokenUsage, base)
	case "error":
		t.failing(n)
	default:
		if method == "item/started" && isCall(n.Item.Type) {
			t.calls++
		}
		if !t.tr.notification(method, n) {
			t.s.note(method)
		}
		t.spawned(&n.Item)
		t.checkLimit()
	}
	return true
}

func (t *turn) beginLocked() {
	if !t.begun {
		t.begun = true
		close(t.started)
	}
}

func isCall(kind string) bool {
	switch kind {
	case itemCommand, itemFileChange, itemMCP, itemDynamic, itemWebSearch, itemImageView, itemCollab:
		return true
	}
	return false
}

// usage takes the total after a request to the model.
func (t *turn) usage(u tokenUsage, base counts) {
	if u.Total == base {
		return // said again, or the size of what is left after a compaction
	}
	t.tally.total = u.Total
	t.emit(events.TurnUsage{Usage: usageOf(u.Total.minus(base), t.tr.model)})
	t.turns++
	t.checkLimit()
	t.calls = 0
}

func (t *turn) completedLocked(n *notification) {
	info := n.Turn
	t.result = &info
	finish, err := t.reasonLocked()
	if t.limit != "" || t.doom != nil || t.waits() {
		finish = "" // it is not the last message
	}
	t.tr.over = true
	if err != nil && info.Status == "failed" && t.tr.open != nil && !t.tr.open.whole {
		t.tr.takeBack("the model's stream was cut") // it stands in nobody's memory
	}
	t.tr.finish(finish, err != nil)
	t.overLocked()
}

// waits reports whether the run goes on when what is in the background has ended.
func (t *turn) waits() bool {
	return t.background == backends.BackgroundWait && t.tr.running() > 0
}

func (t *turn) overLocked() {
	if !t.ended {
		t.ended = true
		close(t.over)
	}
	t.calmLocked()
}

// calmLocked closes calm when nothing runs any more.
func (t *turn) calmLocked() {
	if t.quiet || !t.ended || t.tr.running() > 0 {
		return
	}
	for _, a := range t.subs {
		if a.busy() {
			return
		}
	}
	t.quiet = true
	close(t.calm)
}

func (t *turn) isCalm() bool {
	select {
	case <-t.calm:
		return true
	default:
		return false
	}
}

// completed reports whether the turn ended by itself, or by a limit that was
// asked for. Only after over.
func (t *turn) completed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.result != nil && t.result.Status == "completed"
}

// finish closes what is open. Nothing is emitted by the turn afterwards; the
// usage is told by the last turn of a run.
func (t *turn) finish(last bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tr.finish("", true) // what was open at its end, or came after it
	for _, a := range t.subs {
		a.finish(t)
	}
	t.tr.closeCalls()
	if last && (t.result != nil || t.tally.used()) {
		t.emit(t.tally.usage(t.tr.model))
	}
	t.finished = true
}

// reason is why the turn ended; an error where it failed.
func (t *turn) reason() (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.reasonLocked()
}

func (t *turn) reasonLocked() (string, error) {
	switch {
	case t.limit != "":
		return t.limit, nil
	case t.result.Status == "interrupted":
		return "", &backends.Error{Type: events.ErrInternal, Message: "codex stopped the turn by itself"}
	case t.result.Error == nil:
		return backends.ReasonEndTurn, nil
	}
	if r := t.result.Error.reason(); r != "" {
		return r, nil
	}
	e := t.result.Error.classed()
	if e.Type == events.ErrRateLimit && e.RetryAfter == 0 {
		e.RetryAfter = loggedDelay(t.s.stderr(), t.id) // it has waited so long before each try
	}
	t.s.addRetryAfter(e)
	return "", e
}

// settle ends what the turn has asked of the host and waits for it.
func (t *turn) settle() {
	t.mu.Lock()
	t.settled = true
	t.mu.Unlock()
	t.end()
	t.answers.Wait()
}

// ask asks the host and gives its answer to then, on a goroutine that ends
// with the request. The answer of one that was canceled with its turn is
// nobody's; nor is anything that is asked after its end.
func (t *turn) ask(r events.Request, then func(events.Answer)) {
	if t.settled {
		return
	}
	pending := t.h.Request(t.ctx, r)
	t.answers.Go(func() { // ends when the host answers, or the turn ends
		a, _ := pending.Wait()
		if t.ctx.Err() == nil {
			then(a)
		}
	})
}

// respond answers a question of codex's. One that comes too late, or for a
// process that has ended, does no harm.
func (t *turn) respond(r *rpc.Request, result any) {
	if err := r.Respond(result); err != nil && t.s.peer.Err() == nil {
		t.c.b.log.Warn("an answer could not be given to codex", "conversation", t.c.cfg.ID, "err", err)
	}
}

// after makes next the turn that goes on with the run.
func (t *turn) after(next *turn) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	next.tally, next.turns = t.tally, t.turns
	next.tr.n, next.tr.model = t.tr.n, t.tr.model
	return next
}

// late is what the model is to be told of what ended after its turn.
func (t *turn) late() (out []userInput) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, text := range t.tr.late {
		out = append(out, textInput(text))
	}
	return out
}
