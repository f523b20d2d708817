package claudecode

import (
	"encoding/json"
	"time"

	"innerd/backends"
	"innerd/events"
)

// Translate plays the lines that claude printed through one turn's translator
// after another: each result ends a turn. It gives what was emitted and how
// each turn ended.
func Translate(lines [][]byte, interactive, schema bool, emit func(events.Data), end func(error)) {
	tr := func() *translator {
		t := &turn{interactive: interactive}
		x := newTranslator(emit, t.silent)
		x.schema = schema
		x.now = func() time.Time { return time.Unix(0, 0) }
		return x
	}
	t, used := tr(), tally{}
	for _, b := range lines {
		l, err := decode(b)
		if err != nil {
			end(err)
			continue
		}
		switch {
		case l.Type == lineControlRequest && l.Request.Subtype == "mcp_message":
			t.interrupt()
		case l.Type == lineResult:
			used.add(&l.result)
			err := t.failed(&l.result)
			t.finish(&l.result, err == nil)
			if u := used.usage(t.model, 0); u != nil {
				emit(*u)
			}
			end(err)
			if used = (tally{}); len(t.shells)+len(t.agents) == 0 { // else it is one run
				t = tr()
			}
		default:
			t.line(l)
		}
	}
}

// Decode reports whether a line of stdout can be taken.
func Decode(b []byte) error {
	_, err := decode(b)
	return err
}

// Names gives the names under which tools are listed.
func Names(names ...string) []string {
	var tools []backends.Tool
	for _, n := range names {
		tools = append(tools, backends.Tool{Name: n})
	}
	return newToolset(tools).names
}

// HostName is the host's name of a listed tool.
func HostName(tools []string, listed string) (string, bool) {
	var all []backends.Tool
	for _, n := range tools {
		all = append(all, backends.Tool{Name: n})
	}
	t, ok := newToolset(all).host(listed)
	return t.Name, ok
}

// ChooseModel is what becomes of a wanted model.
func ChooseModel(configured, baseURL, wanted string) (model, foreign string) {
	l := login{backends.Access{Credential: backends.Credential{Model: configured, BaseURL: baseURL}}}
	return l.chooseModel(wanted)
}

// Answers maps a user's answer to claude's questions.
func Answers(in, value string) map[string]string {
	var q askInput
	if err := json.Unmarshal([]byte(in), &q); err != nil {
		return nil
	}
	return q.answers([]byte(value))
}

// Crashed is the class and the message of a process's end.
func Crashed(exit backends.Exit, ready bool) *backends.Error { return crashed(exit, ready) }

// SetStopLimit changes how long background work may take to end.
func (b *Backend) SetStopLimit(d time.Duration) { b.stopLimit = d }

// SetCallLimit changes how long an answer may take that takes no model.
func (b *Backend) SetCallLimit(d time.Duration) { b.callLimit = d }

// SetInputLimit changes how long claude may take to say that it has an input.
func (b *Backend) SetInputLimit(d time.Duration) { b.inputLimit = d }

// NewUUID makes a session's id.
func NewUUID() string { return newUUID() }

// Image makes the block of an image, as the model gets it.
func Image(p events.Part) (any, error) {
	c := &conversation{b: &Backend{o: Options{Children: backends.NewChildren(backends.ChildrenOptions{})}}}
	x, err := c.reader().Piece(1, p)
	return blockOf(x), err
}

// StartOf is when a process started, as claude notes it of who has a session.
func StartOf(pid int) string { return startOf(pid) }
