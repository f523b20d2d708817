package copilot

import (
	"context"
	"encoding/json"
	"time"

	"innerd/backends"
	"innerd/backends/internal/rpc"
	"innerd/events"
)

// Translate plays what copilot printed, message by message, through one turn
// after another, and gives what was emitted and how each turn ended.
func Translate(messages [][]byte, h backends.Host, end func(backends.Outcome, error)) {
	t := newPlayedTurn(h)
	for _, raw := range messages {
		var m struct {
			Method string `json:"method"`
			Params notice `json:"params"`
		}
		if json.Unmarshal(raw, &m) != nil || m.Method != "session.event" {
			continue
		}
		e, err := decode(m.Params.Event)
		if err != nil {
			end(backends.Outcome{}, err)
			continue
		}
		if e.Type == "abort" { // it was asked to
			t.abort()
		}
		t.event(e)
		select {
		case <-t.over:
			t.settle()
			out, err := t.outcome()
			t.tr.end(err != nil || t.halt.on())
			if err == nil || t.tr.tally.any {
				t.emit(*t.tr.tally.usage(t.tr.model, 0, 0))
			}
			end(out, err)
			t = newPlayedTurn(h)
		default:
		}
	}
	t.settle()
}

func newPlayedTurn(h backends.Host) *turn {
	p := &process{b: &Backend{o: Options{MaxRetries: 1}, callLimit: 24 * time.Hour, inputLimit: 24 * time.Hour}, peer: rpc.New(rpc.Options{Send: func([]byte) error { return nil }})}
	c := &conversation{b: p.b}
	s := backends.Settings{Interactive: true, Tools: []backends.Tool{{Name: "lookup", Parallel: true}}}
	t := newTurn(context.Background(), func(error) {}, c, p, h, &s)
	t.tr.now = func() time.Time { return time.Unix(0, 0) }
	return t
}

// Decode reports whether an event can be taken.
func Decode(b []byte) error {
	_, err := decode(b)
	return err
}

// Names gives the names under which tools are listed, and what the model is
// told of those that had to be changed.
func Names(names ...string) (listed []string, told string) {
	var tools []backends.Tool
	for _, n := range names {
		tools = append(tools, backends.Tool{Name: n})
	}
	ts := newToolset(tools)
	return ts.names, ts.renamed()
}

// ChooseModel is what becomes of a wanted model.
func ChooseModel(provider, configured, baseURL, wanted string) (model, foreign string) {
	l := login{provider: provider, model: configured, baseURL: baseURL}
	return l.chooseModel(wanted)
}

// HostResult is an answer of the host's as copilot gets it.
func HostResult(a events.Answer) (text, kind string, images int) {
	r := new(conversation).result(a)
	return r.Text, r.Type, len(r.Binary)
}

// Class is the class of a failure as copilot tells it.
func Class(kind, code string, status int, text string) string {
	f := failure{kind: kind, code: code, status: status, text: text}
	return f.class()
}

// RetryAfterIn is the time in a log.
func RetryAfterIn(log []byte, at time.Time) time.Duration { return retryAfterIn(log, at) }

// PlanEntries is the list of things to do in an answer of copilot's.
func PlanEntries(raw string) []events.PlanEntry { return planEntries(json.RawMessage(raw)) }

// Access is what a backend would use: provider, key, address, login, source.
func (b *Backend) Access(c *backends.Credential) [5]string {
	l := b.login(c)
	return [5]string{l.provider, l.key, l.baseURL, l.kind, l.file}
}

// SetLimits changes how long an answer may take that asks no model, and one to input.
func (b *Backend) SetLimits(call, input time.Duration) { b.callLimit, b.inputLimit = call, input }

// GitRoot is the root of the repository that a directory is in.
func GitRoot(dir string) string { return gitRoot(dir) }

// TailOf is the end of a log.
func (b *Backend) TailOf(path string) []byte { return b.tailOf(path) }

// PassedOver reports whether a message of this session would not be decoded.
func PassedOver(frame []byte) bool { return new(process).passedOver(frame) }

// SaysNothing reports whether a type of event says nothing to a host.
func SaysNothing(typ string) bool { return known[typ] && !handled[typ] }

// OpenSessions are the sessions that conversations have.
type OpenSessions struct{ o openSessions }

// Add notes a conversation that has the session.
func (o *OpenSessions) Add(session string) { o.o.add(session) }

// Remove runs f with the last conversation that has it.
func (o *OpenSessions) Remove(session string, f func() error) error { return o.o.remove(session, f) }

// UnlessOpen runs f unless one has it.
func (o *OpenSessions) UnlessOpen(session string, f func() error) error {
	return o.o.unlessOpen(session, f)
}

// Len is how many sessions are known.
func (o *OpenSessions) Len() int { return len(o.o.open) }
