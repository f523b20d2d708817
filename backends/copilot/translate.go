package copilot

import (
	"time"

	"innerd/backends"
	"innerd/events"
)

// translator turns the events of one turn into ours. It is used by the
// goroutine that reads stdout alone, and by Run when that is done with it.
type translator struct {
	speaker
	now    func() time.Time
	silent func(tool string) bool // its calls are told to the host in another way

	began    time.Time
	first    time.Duration     // to the first piece of an answer
	streams  string            // the message that streams, copilot's id
	said     map[string]bool   // messages that streamed and were closed before they were confirmed
	thought  map[string]bool   // blocks of reasoning that streamed
	calls    map[string]*call  // open native calls
	agents   map[string]*agent // sub-agents by their id
	tally    tally
	model    string
	finish   string // of the last model answer, in the API's words
	answered bool   // the model turn's account has come: what streamed of it is all
	turns    int    // model turns of the main agent
	retrying bool
	failure  *failure // the last model request that failed
	failedAt time.Time
	err      *failure // what session.error said
}

type call struct {
	name   string
	parent string // the call that started the sub-agent which makes this one
	start  time.Time
	output int  // bytes of its output so far that were told
	pieces bool // its output comes in pieces
}

// agent is a sub-agent.
type agent struct {
	call string // that started it
	name string
	text string // its last message
	open bool
}

func newTranslator(emit func(events.Data), silent func(string) bool) *translator {
	return &translator{
		speaker: speaker{emit: emit}, now: time.Now, silent: silent, began: time.Now(),
		said: map[string]bool{}, thought: map[string]bool{}, calls: map[string]*call{}, agents: map[string]*agent{},
	}
}

// event translates one event. Those that mean nothing are fine.
func (t *translator) event(e *event) {
	switch e.Type {
	case evToolStart, evToolPartial, evShellOutput, evToolComplete:
		t.tool(e)
	case evUsage:
		t.usage(e)
	case evSubStart, evSubComplete, evSubFailed:
		t.subagent(e)
	default:
		if e.AgentID != "" {
			t.ofAgent(e)
			return
		}
		t.main(e)
	}
}

// main is what the main agent says.
func (t *translator) main(e *event) {
	d := &e.Data
	switch e.Type {
	case evTurnStart:
		t.turnStart()
	case evTurnEnd:
		t.turnEnd()
	case evTurnRetry:
		t.retry(d)
	case evReasoningPart:
		t.thought[d.ReasoningID] = true
		t.piece(true, "", d.DeltaContent)
	case evMessagePart:
		t.piece(false, d.MessageID, d.DeltaContent)
	case evMessage:
		t.message(d)
	case evCallFailure:
		t.failure, t.failedAt = failureOf(d), t.now()
	case evError:
		t.err = failureOf(d)
	case evCompactStart:
		t.interrupt()
		t.emit(events.Status{State: events.StateCompacting})
		t.retrying = true // the next sign of work says so
	case evCompactDone:
		t.compacted(d)
	case evWarning:
		t.emit(events.Status{State: events.StateNotice, Detail: d.Message})
	case evNotification:
		t.emit(events.Status{State: events.StateNotice, Detail: plainNotice(d.Content)})
	}
}

// piece is a delta. A message that begins while another is not confirmed ends
// it: one answer of the Responses API may hold several.
func (t *translator) piece(reasoning bool, id, text string) {
	if t.first == 0 {
		t.first = t.now().Sub(t.began)
	}
	t.working()
	if !reasoning && id != t.streams {
		if t.streaming() {
			t.said[t.streams] = true
			t.keep()
			t.close("", false)
		}
		t.streams = id
	}
	if reasoning && t.streaming() {
		t.said[t.streams] = true
		t.keep()
	}
	t.say(reasoning, text)
}

// message is a whole answer. Where it streamed, it only confirms.
func (t *translator) message(d *data) {
	if d.Model != "" {
		t.model = d.Model
	}
	switch {
	case t.said[d.MessageID]:
		return // another streams by now
	case d.Content == "":
	case t.streaming() && d.MessageID == t.streams:
		t.confirm(d.Content)
	default:
		t.takeBack("the agent said it differently in the end")
		if d.Thought != "" && len(t.thought) == 0 {
			t.say(true, d.Thought)
			t.keep()
		}
		t.streams = d.MessageID
		t.say(false, d.Content)
	}
	t.keep()
	t.close(finishReason(t.finish), false)
}

// turnStart is a new request to the model. What streamed and was not confirmed
// is void, unless the model ran into its limit: then copilot lets it go on,
// and the text that follows belongs to the same message.
func (t *translator) turnStart() {
	t.turns++
	t.err, t.answered = nil, false
	if t.finish != finishLength {
		t.takeBack("the agent began anew")
	}
	t.working()
}

func (t *translator) turnEnd() {
	if t.finish == finishLength {
		t.keep()
	}
}

func (t *translator) retry(d *data) {
	t.takeBack("the model's stream was cut")
	t.retrying = true
	s := events.Status{State: events.StateRetrying, Detail: d.Reason}
	if f := t.failure; f != nil {
		s.Attempt, s.ErrorType = f.attempt+1, f.class()
	}
	t.emit(s)
}

func (t *translator) compacted(d *data) {
	if d.Compaction != nil {
		t.tally.add(d.Compaction)
	}
	if !d.Success {
		t.emit(events.Status{State: events.StateNotice, Detail: "copilot could not compact its memory: " + errorText(d.Error)})
	}
	t.working()
}

// usage is the account of one model answer; it comes before the whole answer.
func (t *translator) usage(e *event) {
	u := &e.Data.usage
	t.tally.add(u)
	if e.AgentID != "" {
		return
	}
	t.failure = nil
	t.finish, t.answered = u.Finish, true
	if u.Filtered {
		t.finish = finishFilter
	}
	if e.Data.Model != "" {
		t.model = e.Data.Model
	}
	t.emit(events.TurnUsage{Usage: u.events(t.model)})
}

// working ends a status that told of trouble.
func (t *translator) working() {
	if t.retrying {
		t.retrying = false
		t.emit(events.Status{State: events.StateWorking})
	}
}

// interrupt closes what is open before something else has to be said.
func (t *translator) interrupt() {
	t.keep()
	t.close("", false)
}

// cut reports whether a message streams that copilot has neither confirmed nor
// accounted for: its end is missing.
func (t *translator) cut() bool { return t.streaming() && !t.answered }

// end closes the turn's speech, and its calls unless it failed: then the run
// says why they ended.
func (t *translator) end(failed bool) {
	finish, cut := finishReason(t.finish), t.cut()
	if cut {
		finish = ""
	}
	t.keep()
	t.close(finish, failed || cut)
	if !failed {
		t.closeCalls()
	}
	for id, a := range t.agents {
		if a.open {
			a.open = false
			t.emit(events.SubagentComplete{ID: id, ParentID: a.call, Name: a.name, Result: a.text})
		}
	}
}

// spoke reports whether the main agent has said something that stands.
func (t *translator) spoke() bool { return t.last != "" || t.open != nil && !t.open.reasoning }

// The words of finish reasons: those of Chat Completions, for every API.
const (
	finishLength = "length"
	finishFilter = "content_filter"
)

// finishReason is the finish reason where the wire has a word for it.
func finishReason(finish string) string {
	switch finish {
	case "stop":
		return backends.ReasonEndTurn
	case finishLength:
		return backends.ReasonMaxTokens
	case finishFilter:
		return backends.ReasonRefusal
	}
	return ""
}
