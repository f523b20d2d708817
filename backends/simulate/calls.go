package simulate

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"innerd/backends"
	"innerd/events"
)

// native is a call of the agent's own tool.
type native struct {
	name   string
	input  json.RawMessage
	output string
	exit   *int
	took   time.Duration
}

func readNative(o *object, nameKey string) native {
	o.need(nameKey)
	n := native{name: o.str(nameKey), input: o.raw("input", "{}"), output: o.str("output"), took: o.ms("ms")}
	if o.has("exit_code") {
		code := int(o.integer("exit_code", -1, 255))
		n.exit = &code
	}
	return n
}

func (n native) run(t *turn, id string) error {
	t.emit(events.ToolCall{ID: id, Name: n.name, Input: n.input})
	if n.took > 0 {
		if n.output != "" {
			t.emit(events.ToolUpdate{ID: id, Name: n.name, Output: n.output})
		}
		if err := t.pause(n.took); err != nil {
			return err
		}
	}
	t.emit(events.ToolComplete{
		ID: id, Name: n.name, Success: n.exit == nil || *n.exit == 0, ExitCode: n.exit,
		Result: n.output, DurationMS: n.took.Milliseconds(),
	})
	t.rounds++
	return nil
}

type toolStep struct{ native native }

func makeTool(o *object) step {
	return toolStep{readNative(o.inner("tool", "name", "input", "output", "exit_code", "ms"), "name")}
}

func (s toolStep) play(t *turn) error { return s.native.run(t, t.callID()) }
func (toolStep) says() bool           { return false }

// permission asks before it runs a native tool.
type permission struct{ native native }

func makePermission(o *object) step {
	return permission{readNative(o.inner("permission", "tool", "input", "output", "exit_code", "ms"), "tool")}
}

func (permission) says() bool { return true }

func (s permission) play(t *turn) error {
	id := t.callID()
	a, err := t.wait(t.h.Request(t.ctx, events.Request{
		Kind: events.KindPermission, NativeID: id, Tool: s.native.name, Input: s.native.input,
	}))
	if err != nil {
		return err
	}
	t.remember(KindAnswer, strings.TrimSpace(a.Outcome+" "+a.Message))
	if a.Outcome == events.OutcomeAllowed {
		return s.native.run(t, id)
	}
	t.rounds++
	text := "permission denied: " + s.native.name
	if a.Message != "" {
		text += ": " + a.Message
	}
	return t.say(text, pace{})
}

// wait waits for an answer. An error is how the turn ends.
func (t *turn) wait(p backends.Pending) (events.Answer, error) {
	a, err := p.Wait()
	if err == nil {
		return a, nil
	}
	if terr := t.err(); terr != nil {
		return a, terr
	}
	return a, wrap(err)
}

// call is one or more calls of the host's tools, all open at once.
type call struct{ calls []bridged }

type bridged struct {
	tool      string
	arguments json.RawMessage
}

func readBridged(o *object) bridged {
	o.only("tool", "arguments")
	o.need("tool")
	return bridged{o.str("tool"), o.raw("arguments", "{}")}
}

func makeCall(o *object) step {
	return call{[]bridged{readBridged(o.inner("call", "tool", "arguments"))}}
}

func makeCalls(o *object) step {
	list := o.r.list(o.path("calls"), o.fields["calls"], "calls")
	if len(list) == 0 {
		o.r.fail(o.path("calls"), "must not be empty")
	}
	var s call
	for i, raw := range list {
		s.calls = append(s.calls, readBridged(o.r.object(fmt.Sprintf("%s[%d]", o.path("calls"), i), raw)))
	}
	return s
}

func (call) says() bool { return true }

func (s call) play(t *turn) error {
	pending := make([]backends.Pending, len(s.calls))
	for i, c := range s.calls {
		pending[i] = t.h.Request(t.ctx, events.Request{
			Kind: events.KindTool, NativeID: t.callID(), Tool: c.tool, Input: c.arguments,
		})
	}
	answers := make([]events.Answer, len(pending))
	var failed error
	for i, p := range pending { // all of them, also after a failure: none may be left waiting
		a, err := t.wait(p)
		if err != nil {
			failed = errors.Join(failed, err)
		}
		answers[i] = a
	}
	if failed != nil {
		return failed
	}
	t.rounds++
	last := t.last
	for i, a := range answers {
		t.remember(KindResult, "", a.Parts()...)
		t.last = last && i == len(answers)-1
		if err := t.say(describe(a), pace{}); err != nil {
			return err
		}
	}
	return nil
}

// describe says a tool's result as text.
func describe(a events.Answer) string {
	var out []string
	for _, p := range a.Parts() {
		out = append(out, describePart(p))
	}
	text := strings.Join(out, "\n")
	switch {
	case a.IsError || a.Outcome == events.OutcomeError:
		return "error: " + text
	case a.Outcome == events.OutcomeTimeout || a.Outcome == events.OutcomeCanceled:
		return a.Outcome + ": " + text
	case text == "":
		return "(empty result)"
	}
	return text
}

func describePart(p events.Part) string {
	switch {
	case p.Type == events.PartText || p.Text != "":
		return p.Text
	case len(p.JSON) > 0:
		return string(p.JSON)
	case p.Data != "":
		size := base64.StdEncoding.DecodedLen(len(p.Data)) - strings.Count(p.Data, "=")
		return fmt.Sprintf("[%s: %s, %d bytes]", p.Type, p.MimeType, size)
	}
	return fmt.Sprintf("[%s: %s%s]", p.Type, p.URL, p.Path)
}

// ask asks the user.
type ask struct {
	message string
	schema  json.RawMessage
}

func makeAsk(o *object) step {
	in := o.inner("ask", "message", "schema")
	in.need("message")
	return ask{in.str("message"), in.raw("schema", stringSchema)}
}

const stringSchema = `{"type":"string"}`

func (ask) says() bool { return true }

func (s ask) play(t *turn) error {
	answer, err := s.answer(t)
	if err != nil {
		return err
	}
	return t.say(answer, pace{})
}

// answer asks and waits.
func (s ask) answer(t *turn) (string, error) {
	a, err := t.wait(t.h.Request(t.ctx, events.Request{
		Kind: events.KindQuestion, NativeID: t.callID(), Message: s.message, Schema: s.schema,
	}))
	if err != nil {
		return "", err
	}
	t.rounds++
	text := string(a.Value)
	var str string
	if json.Unmarshal(a.Value, &str) == nil {
		text = str
	}
	if text == "" {
		text = "(" + a.Outcome + ")"
	}
	t.remember(KindAnswer, text)
	return text, nil
}
