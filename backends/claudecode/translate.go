package claudecode

import (
	"strings"
	"sync"
	"time"

	"innerd/backends"
	"innerd/backends/claudecode/internal/changes"
	"innerd/events"
)

// Kinds of content blocks.
const (
	blockText     = "text"
	blockThinking = "thinking"
	blockToolUse  = "tool_use"
	blockResult   = "tool_result"
)

const syntheticModel = "<synthetic>" // messages that claude, not a model, wrote

// translator turns the lines of one turn into events. It is used by the
// goroutine that reads stdout alone.
type translator struct {
	speaker
	now    func() time.Time
	silent func(tool string) bool // its calls are told to the host in another way
	schema bool                   // the answer is structured output
	more   func() bool            // another message may follow the one that ends

	cur     apiMessage
	gone    string // of the block that streams: what was closed before its end
	calls   map[string]call
	started map[string]bool   // all calls that there were
	agents  map[string]*agent // sub-agents that run, by claude's id of them
	shells  map[string]bool   // commands that run in the background, likewise

	mu       sync.Mutex
	files    map[string][]changes.Leaving // that a call may delete or move; also of those who allow it
	model    string
	retrying bool
	failure  *failure      // the last synthetic message that told of one
	delay    time.Duration // what the provider asked for at the last retry
}

// apiMessage is the model message that streams.
type apiMessage struct {
	id    string
	kind  string // of the block that streams
	stop  string
	usage events.Usage
}

type call struct {
	name   string
	parent string
	start  time.Time
}

// failure is what claude says of a failed model request.
type failure struct {
	kind   string // authentication_failed, rate_limit, …
	status int
	text   string
}

func newTranslator(emit func(events.Data), silent func(string) bool) *translator {
	return &translator{
		speaker: speaker{emit: emit}, now: time.Now, silent: silent, more: func() bool { return false },
		calls: map[string]call{}, started: map[string]bool{}, agents: map[string]*agent{}, shells: map[string]bool{},
	}
}

// mayLeave notes the files that a call may delete or move, before it runs.
func (t *translator) mayLeave(call string, files []changes.Leaving) {
	if len(files) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.files == nil {
		t.files = map[string][]changes.Leaving{}
	}
	t.files[call] = files
}

func (t *translator) takeLeaving(call string) []changes.Leaving {
	t.mu.Lock()
	defer t.mu.Unlock()
	files := t.files[call]
	delete(t.files, call)
	return files
}

// line translates one line. Lines that mean nothing are fine.
func (t *translator) line(l *line) {
	switch l.Type {
	case lineUser:
		if !l.Replay {
			t.user(l)
		}
		return
	case lineSystem:
		t.system(l)
		return
	}
	switch {
	case l.Parent != "":
		t.below(l)
	case l.Type == lineStream:
		t.stream(l)
	case l.Type == lineAssistant:
		t.assistant(l)
	}
}

func (t *translator) stream(l *line) {
	ev := &l.Event
	switch ev.Type {
	case "message_start":
		t.takeBack("the model's stream was cut")
		t.gone = ""
		if t.cur.stop == backends.ReasonRefusal {
			t.close("", false) // claude tries once more; that is no continuation
		}
		t.cur = apiMessage{id: ev.Message.ID, usage: usageOf(ev.Message.Usage, ev.Message.Model)}
		t.setModel(ev.Message.Model)
		t.working()
	case "content_block_start":
		t.blockStart(ev.Block)
	case "content_block_delta":
		switch ev.Delta.Type {
		case "text_delta":
			t.say(false, ev.Delta.Text)
		case "thinking_delta":
			t.say(true, ev.Delta.Thinking)
		}
	case "message_delta":
		if ev.Delta.StopReason != "" {
			t.cur.stop = ev.Delta.StopReason
		}
		if ev.Usage.Output != nil {
			t.cur.usage.OutputTokens = ev.Usage.Output
		}
	case "message_stop":
		t.messageStop(l.Abandoned != nil)
	}
}

// blockStart: text goes on in the message that is open, whatever else ends it.
func (t *translator) blockStart(b block) {
	t.cur.kind, t.gone = b.Type, ""
	if b.Type != blockText || (t.open != nil && t.open.reasoning) {
		t.keep()
		t.close("", false)
	}
	switch b.Type {
	case blockText:
		t.say(false, b.Text)
	case blockThinking:
		t.say(true, b.Thinking)
	}
}

// messageStop ends the message, unless the model is going to continue it: it
// ran into its limit, or its stream was cut after a whole block. Then the
// text that follows belongs to the same message, or the reader would be left
// with half of it.
func (t *translator) messageStop(abandoned bool) {
	if abandoned {
		t.takeBack("the model's stream was cut")
		return
	}
	t.keep()
	if t.cur.usage.OutputTokens != nil {
		t.emit(events.TurnUsage{Usage: t.cur.usage})
	}
	switch t.cur.stop {
	case backends.ReasonMaxTokens, backends.ReasonRefusal: // it may not be the last
	default:
		t.close(t.finishing(t.cur.stop), false)
	}
}

// finishing is what the last message says of how it ended.
func (t *translator) finishing(stop string) string {
	if t.more() {
		return ""
	}
	return finishReason(stop)
}

func (t *translator) assistant(l *line) {
	if l.APIError || (l.Message.Model == syntheticModel && l.Error != "") {
		t.failure = &failure{kind: string(l.Error), status: l.APIErrorStatus, text: textOf(l.Message.Content)}
		return
	}
	for _, b := range l.Message.Content {
		switch {
		case b.Type == blockToolUse:
			t.toolUse(l, b)
		case b.Type == blockText:
			t.whole(l.Message, false, b.Text)
		case b.Type == blockThinking:
			t.whole(l.Message, true, b.Thinking)
			if t.open != nil && t.open.reasoning {
				t.close("", false)
			}
		}
	}
}

// whole takes a block as it ended: it confirms what streamed, or says a block
// that did not stream, as after the fallback to a request without streaming.
func (t *translator) whole(m message, reasoning bool, text string) {
	t.setModel(m.Model)
	if m.ID == t.cur.id && t.gone != "" {
		text, t.gone = strings.TrimPrefix(text, t.gone), ""
		if text == "" {
			return
		}
	}
	if t.streaming(reasoning) && m.ID == t.cur.id {
		t.confirm(text)
		return
	}
	if m.ID == t.cur.id && t.alreadySaid(reasoning, text) {
		return
	}
	t.takeBack("the model's stream was cut")
	if m.ID != t.cur.id {
		t.cur = apiMessage{id: m.ID, stop: m.StopReason}
		t.working()
	}
	t.say(reasoning, text)
	t.keep()
}

// alreadySaid: the whole block came a second time.
func (t *translator) alreadySaid(reasoning bool, text string) bool {
	return t.open != nil && t.open.reasoning == reasoning && strings.HasSuffix(t.open.kept.String(), text)
}

func (t *translator) system(l *line) {
	switch l.Subtype {
	case "init":
		t.setModel(l.Model)
	case "status", "compact_boundary":
		t.compactStatus(l)
	case "task_started":
		t.agentStarted(l)
		if l.Backgrounded && l.TaskType != taskAgent {
			t.shells[l.TaskID] = true
		}
	case "task_notification":
		t.taskEnded(l)
	case "api_retry":
		t.takeBack("the model's stream was cut")
		t.retrying = true
		f := failure{kind: string(l.Error), status: l.ErrorStatus}
		t.delay = time.Duration(l.DelayMS) * time.Millisecond
		t.emit(events.Status{
			State: events.StateRetrying, Attempt: l.Attempt, DelayMS: int64(l.DelayMS),
			ErrorType: f.class(), Detail: f.kind,
		})
	}
}

// working ends a status that told of trouble.
func (t *translator) working() {
	if t.retrying {
		t.retrying = false
		t.emit(events.Status{State: events.StateWorking})
	}
}

func (t *translator) setModel(m string) {
	if m != "" && m != syntheticModel {
		t.model = m
	}
}

// interrupt closes what is open before something else has to be said. What
// streams goes on after it: claude then tells the whole of it.
func (t *translator) interrupt() {
	if t.open != nil {
		t.gone += t.open.piece.String()
	}
	t.keep()
	t.close("", false)
}

// finish ends with a result what was said until then; more may follow.
func (t *translator) finish(r *result, answered bool) {
	stop, cut := t.finishing(t.stopReason(r)), t.failure.maxTokens()
	t.keep()
	t.close(stop, !answered)
	said := t.said
	t.said, t.failure, t.cur = false, nil, apiMessage{}
	if !answered || cut {
		return
	}
	switch {
	case len(r.Structured) > 0 && string(r.Structured) != "null":
		t.say(false, string(r.Structured))
	case !said:
		t.say(false, r.Text)
	}
	t.keep()
	if stop = finishReason(r.StopReason); stop == "" && !t.more() {
		stop = backends.ReasonEndTurn
	}
	t.close(stop, false)
}

func (t *translator) stopReason(r *result) string {
	if t.failure.maxTokens() {
		return backends.ReasonMaxTokens
	}
	if r.StopReason != "" {
		return r.StopReason
	}
	return t.cur.stop
}

// lost ends the turn's speech when no result comes any more.
func (t *translator) lost() {
	t.keep()
	t.close("", true)
	t.endAgents()
}

// finishReason is the stop reason where the wire has a word for it.
func finishReason(stop string) string {
	switch stop {
	case backends.ReasonEndTurn, backends.ReasonMaxTokens, backends.ReasonRefusal, backends.ReasonStopSequence:
		return stop
	}
	return ""
}

func textOf(c content) string {
	var b strings.Builder
	for _, x := range c {
		switch x.Type {
		case blockText:
			if b.Len() > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(x.Text)
		case "image":
			b.WriteString("[image]")
		}
	}
	return b.String()
}
