package runs

import (
	"encoding/json"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/oklog/ulid/v2"

	"innerd/events"
	"innerd/telemetry"
)

// appender is the part of a journal.Log that a recorder writes to.
type appender interface {
	Append(events.Data) (int64, error)
}

// recorder stands between a backend and the run's log. It is the one door
// through which events go in, and keeps the promises of the stream: one block
// open at a time, closed with the sum of its deltas; ids that never repeat;
// every call ended. Its methods may be called at the same time.
type recorder struct {
	// order is held while an event is checked and appended, so also while the
	// log waits for its disk. Nothing but writing to the log takes it.
	order  sync.Mutex
	log    appender
	sealed bool
	lastID int64 // of what was appended, which readers may not see yet

	open    block
	last    map[string]string // native key of a message or reasoning → its latest id here
	nextID  int
	tools   []*openTool       // native calls that run, oldest first
	callIDs map[string]string // native call id → id here
	files   []string
	fileSet map[string]bool
	steers  int // that the agent itself has put into its place
	usage   *events.Usage
	turns   events.Usage // the sum of the model turns

	calls     int // of the main agent, native and bridged
	bridged   int
	natives   int // calls of the agent's own tools
	callLimit int
	maxCost   float64
	long      int  // bytes of the last text, if that was long
	limited   bool // the call above the limit came; nothing more is let in
	messages  int  // closed and not taken back
	reasoned  bool

	started time.Time
	ttft    time.Duration

	pulse   atomic.Int64 // grows with every sign of life
	busy    atomic.Int64 // native calls that run
	dropped atomic.Int64
	stop    func(error) // ends the turn with a cause
	redact  *redactor   // nil: nothing is taken out

	span  *telemetry.Span     // the run's
	first func(time.Duration) // told of the first delta; nil: nobody
}

// block is the message or reasoning that is open.
type block struct {
	kind events.Type // TypeMessage, TypeReasoning, "" when none
	key  string      // the backend's id of it
	id   string
	sum  []byte
}

type openTool struct {
	native string
	call   events.ToolCall
	since  time.Time
	span   *telemetry.Span
}

func newRecorder(log appender, stop func(error)) *recorder {
	return &recorder{
		log: log, stop: stop, started: time.Now(),
		last: map[string]string{}, callIDs: map[string]string{}, fileSet: map[string]bool{},
	}
}

// record takes what the agent, the bridge or the run says.
func (r *recorder) record(d events.Data) {
	r.pulse.Add(1)
	r.order.Lock()
	defer r.order.Unlock()
	if r.sealed {
		r.dropped.Add(1)
		return
	}
	r.recordLocked(d)
}

func (r *recorder) recordLocked(d events.Data) {
	switch v := d.(type) {
	case events.MessageDelta:
		r.deltaLocked(events.TypeMessage, v.MessageID, v.Delta, d)
	case events.ReasoningDelta:
		r.deltaLocked(events.TypeReasoning, v.ReasoningID, v.Delta, d)
	case events.Message:
		r.messageLocked(v)
	case events.Reasoning:
		r.reasoningLocked(v)
	case events.Discarded:
		r.discardLocked(v)
	case events.ToolCall:
		r.toolCallLocked(v)
	case events.ToolUpdate:
		v.ID, v.ParentID = r.callID(v.ID), r.knownID(v.ParentID)
		r.append(v)
	case events.ToolComplete:
		r.toolCompleteLocked(v)
	case events.ToolRequest:
		r.toolRequestLocked(v)
	case events.InputRequired:
		r.closeBlockLocked(false)
		r.append(v)
	case events.FileChange:
		r.fileLocked(v)
	case events.Steered:
		r.steers++
		r.append(v)
	case events.Usage:
		r.usage = &v
	case events.TurnUsage:
		r.turnUsageLocked(v)
	case events.SubagentStart:
		v.ParentID = r.knownID(v.ParentID)
		r.append(v)
	case events.SubagentDelta:
		v.ParentID = r.knownID(v.ParentID)
		r.append(v)
	case events.SubagentComplete:
		v.ParentID = r.knownID(v.ParentID)
		r.append(v)
	case events.TaskID, events.Error, events.End, events.Heartbeat:
		r.dropped.Add(1) // the run's own to say
	default:
		r.append(d)
	}
}

// append writes to the log. A log that can't take more ends the turn.
func (r *recorder) append(d events.Data) {
	if r.redact == nil {
		r.write(d)
		return
	}
	for _, d := range r.redact.events(d) {
		r.write(d)
	}
}

func (r *recorder) write(d events.Data) {
	id, err := r.log.Append(d)
	if err != nil {
		r.stop(err)
		return
	}
	r.lastID = id
}

// deltaLocked takes a piece of a text. whole is the event that it is, or nil.
func (r *recorder) deltaLocked(kind events.Type, key, delta string, whole events.Data) {
	if delta == "" {
		return
	}
	if r.open.kind != kind || r.open.key != key {
		r.closeBlockLocked(false)
		r.openBlockLocked(kind, key)
	}
	if r.ttft == 0 {
		r.firstDeltaLocked()
	}
	if r.redact == nil && whole != nil && key == r.open.id {
		r.open.sum = append(r.open.sum, delta...)
		r.write(whole) // as it is: a new one would be garbage for every delta
		return
	}
	if delta = r.shownLocked(delta); delta != "" {
		r.showLocked(kind, delta)
	}
}

// showLocked writes a piece of the open text.
func (r *recorder) showLocked(kind events.Type, delta string) {
	r.open.sum = append(r.open.sum, delta...)
	if kind == events.TypeMessage {
		r.write(events.MessageDelta{Delta: delta, MessageID: r.open.id})
		return
	}
	r.write(events.ReasoningDelta{Delta: delta, ReasoningID: r.open.id})
}

func (r *recorder) firstDeltaLocked() {
	r.ttft = max(time.Since(r.started), 1)
	r.span.Mark("first_delta")
	if r.first != nil {
		r.first(r.ttft)
	}
}

// maxSum is the largest buffer that a text begins with.
const maxSum = 2 << 20

func (r *recorder) openBlockLocked(kind events.Type, key string) {
	r.nextID++
	prefix := "m"
	if kind == events.TypeReasoning {
		prefix = "r"
	}
	sum := r.open.sum[:0]
	if sum == nil { // the last one was long; in a flood, this one is too
		sum = make([]byte, 0, min(r.long, maxSum))
		r.long = 0
	}
	r.open = block{kind: kind, key: key, id: prefix + strconv.Itoa(r.nextID), sum: sum}
	r.last[prefix+key] = r.open.id
}

// closeBlockLocked ends what is open with the sum of its deltas.
func (r *recorder) closeBlockLocked(partial bool) {
	r.closeWithLocked(events.Message{Partial: partial})
}

func (r *recorder) closeWithLocked(m events.Message) {
	r.flushLocked()
	b := r.open
	text, sum := b.text()
	if sum == nil {
		r.long = len(text)
	}
	r.open = block{sum: sum}
	switch b.kind {
	case events.TypeMessage:
		m.Content, m.MessageID = text, b.id
		r.messages++
		r.append(m)
	case events.TypeReasoning:
		r.reasoned = true
		r.append(events.Reasoning{Content: text, ReasoningID: b.id})
	}
}

// longText is from where a text is its buffer itself, and the next one has a
// buffer of its own: many runs that end at once would hold each text twice.
const longText = 32 << 10

// text gives what the block says, and the buffer that the next one may use.
func (b *block) text() (string, []byte) {
	if len(b.sum) < longText {
		return string(b.sum), b.sum
	}
	return unsafe.String(&b.sum[0], len(b.sum)), nil // nobody writes to it any more
}

func (r *recorder) messageLocked(m events.Message) {
	key := m.MessageID
	if r.open.kind != events.TypeMessage || r.open.key != key {
		if _, seen := r.last["m"+key]; seen || m.Content == "" {
			return // closed before, or a model turn without text
		}
		r.deltaLocked(events.TypeMessage, key, m.Content, nil)
	}
	m.ToolCalls = r.summariesLocked(m.ToolCalls)
	r.closeWithLocked(m)
}

func (r *recorder) reasoningLocked(m events.Reasoning) {
	key := m.ReasoningID
	if r.open.kind != events.TypeReasoning || r.open.key != key {
		if _, seen := r.last["r"+key]; seen || m.Content == "" {
			return
		}
		r.deltaLocked(events.TypeReasoning, key, m.Content, nil)
	}
	r.closeBlockLocked(false)
}

// summariesLocked keeps the calls of a message whose ids are known by now.
func (r *recorder) summariesLocked(in []events.CallSummary) []events.CallSummary {
	var out []events.CallSummary
	for _, c := range in {
		if id, ok := r.callIDs[c.ID]; ok {
			c.ID, c.Arguments = id, object(c.Arguments)
			out = append(out, c)
		}
	}
	return out
}

func (r *recorder) discardLocked(d events.Discarded) {
	out := events.Discarded{Reason: d.Reason}
	switch {
	case d.MessageID != "":
		out.MessageID = r.takeBackLocked(events.TypeMessage, "m", d.MessageID)
	case d.ReasoningID != "":
		out.ReasoningID = r.takeBackLocked(events.TypeReasoning, "r", d.ReasoningID)
	}
	if out.MessageID == "" && out.ReasoningID == "" {
		return // nothing of it was shown
	}
	r.append(out)
}

func (r *recorder) takeBackLocked(kind events.Type, prefix, key string) string {
	id := r.last[prefix+key]
	delete(r.last, prefix+key)
	if r.open.kind == kind && r.open.key == key {
		if len(r.open.sum) == 0 {
			id = "" // all of it was held back
		}
		r.open = block{sum: r.open.sum}
		r.forgetLocked()
		return id
	}
	if id != "" && kind == events.TypeMessage {
		r.messages--
	}
	r.closeBlockLocked(false)
	return id
}

func (r *recorder) fileLocked(f events.FileChange) {
	if !r.fileSet[f.Path] {
		r.fileSet[f.Path] = true
		r.files = append(r.files, f.Path)
	}
	r.append(f)
}

func (r *recorder) turnUsageLocked(u events.TurnUsage) {
	r.append(u)
	addUsage(&r.turns, u.Usage)
	if cost := r.turns.Cost; cost != nil && r.maxCost > 0 && *cost >= r.maxCost {
		r.stop(errMaxCost)
	}
}

// newCallID makes an id that never repeats on any server.
func newCallID() string { return "tc_" + ulid.Make().String() }

// object makes sure that what is shown as an object is JSON.
func object(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || !json.Valid(raw) {
		return json.RawMessage("{}")
	}
	return raw
}
