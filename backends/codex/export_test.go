package codex

import (
	"context"
	"encoding/json"
	"time"

	"innerd/backends"
	"innerd/backends/internal/rpc"
	"innerd/events"
)

// Translate plays the lines that codex printed through one conversation: each
// turn/started begins a run. It gives what was emitted, what the host was
// asked, which allows everything, and how each turn ended.
func Translate(lines [][]byte, emit func(events.Data), asked func(events.Request), end func(string, error)) {
	b := New(&Options{Children: backends.NewChildren(backends.ChildrenOptions{}), Home: "/nowhere"})
	s := &server{b: b, log: b.log, threads: map[string]*route{}}
	s.peer = rpc.New(rpc.Options{Send: func([]byte) error { return nil }, Notification: s.notification, Request: s.request})
	c := newConversation(b, backends.Config{}, "", login{})
	h := &goldenHost{emit: emit, asked: asked}
	finish := func() {
		t := c.turn
		if t == nil {
			return
		}
		t.settle()
		t.finish(true)
		c.attach(nil)
		if t.result == nil {
			end("", nil)
			return
		}
		reason, err := t.reason()
		if t.doom != nil {
			err = t.doom
		}
		end(reason, err)
	}
	for _, line := range lines {
		var m struct {
			Method string       `json:"method"`
			Params notification `json:"params"`
		}
		_ = decode(line, &m)
		thread := m.Params.ThreadID
		if m.Method == "turn/started" && (len(s.threads) == 0 || s.routeOf(thread) != nil && s.routeOf(thread).agent == "") {
			finish()
			s.attach(thread, &route{c: c})
			c.thread = thread
			t := newTurn(context.Background(), func(error) {}, c, s, h, newToolset(goldenTools), &backends.Settings{Interactive: true})
			t.tally.began = time.Time{}
			t.tr.now = func() time.Time { return time.Unix(0, 0) }
			c.attach(t)
		}
		s.peer.Handle(line)
	}
	finish()
}

// goldenTools are the host's tools of the transcripts.
var goldenTools = []backends.Tool{{Name: "lookup"}, {Name: "shared"}, {Name: "alpha"}, {Name: "beta"}, {Name: "other"}, {Name: "exec_command"}}

type goldenHost struct {
	emit  func(events.Data)
	asked func(events.Request)
}

func (h *goldenHost) Emit(e events.Event) {
	switch d := e.Data.(type) {
	case nil:
		return
	case events.Usage:
		d.Duration, d.TTFTMS = nil, nil
		h.emit(d)
	default:
		h.emit(d)
	}
}

func (h *goldenHost) Request(_ context.Context, r events.Request) backends.Pending {
	h.asked(r)
	return allowed{}
}

type allowed struct{}

func (allowed) Wait() (events.Answer, error) {
	return events.Answer{Outcome: events.OutcomeAllowed}, nil
}

// Names gives the names under which tools are offered.
func Names(names ...string) []string {
	var tools []backends.Tool
	for _, n := range names {
		tools = append(tools, backends.Tool{Name: n})
	}
	return newToolset(tools).names
}

// ChooseModel is what becomes of a wanted model.
func ChooseModel(configured, baseURL, wanted string) (model, foreign string) {
	l := login{}
	l.Model, l.BaseURL = configured, baseURL
	return l.chooseModel(wanted)
}

// Classed is the class of an error as codex tells it.
func Classed(info, message, details string) *backends.Error {
	e := turnError{Message: message, Info: json.RawMessage(info), Details: details}
	return e.classed()
}

// Unwrapped is a command without the shell that runs it.
func Unwrapped(command string) string { return unwrapped(command) }

// LoggedDelay is the time that codex's log tells for a turn.
func LoggedDelay(log, turn string) time.Duration { return loggedDelay(log, turn) }

// Amended is a thread's file with other tools and instructions.
func Amended(data, tools, system string) (string, error) {
	out, err := amended([]byte(data), tools, system)
	return string(out), err
}

// SystemText is our part of a thread's instructions.
func SystemText(system string) string { return systemText(system, "") }

// Change is a change of a file, as codex tells it, as an event.
func Change(raw string) events.FileChange {
	var c fileChange
	_ = decode(json.RawMessage(raw), &c)
	return c.event()
}

// Answer is a host's answer as codex gets it.
func Answer(a events.Answer) string {
	raw, _ := plainJSON(answerOf(a))
	return string(raw)
}

// EffortOf is the effort of a turn.
func EffortOf(effort string, thinking int) string {
	return effortOf(&backends.Settings{Effort: effort, ThinkingTokens: thinking})
}

// Platform is how the vendor names this machine: its package, and the folder in it.
func Platform() [2]string { return [2]string{platform(), triple()} }

// HomeFile says where codex's folder was when it was last used.
const HomeFile = homeFile

// SetCallLimit changes how long an answer may take that takes no model.
func (b *Backend) SetCallLimit(d time.Duration) { b.callLimit = d }

// SetInputLimit changes how long the answer to a turn's input may take.
func (b *Backend) SetInputLimit(d time.Duration) { b.inputLimit = d }

// Args is the command line of a process.
func Args() []string { return args() }

// IsNative reports whether a name is known as that of a tool of codex's own.
func IsNative(name string) bool { return isNative(name) }
