// Package tckagent is the agent that the official A2A conformance kit expects
// to test: what it does is chosen by the prefix of a message's id. It is for
// tests alone; no product wires it.
package tckagent

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"innerd/adapter/a2a"
	"innerd/adapter/a2a/spec"
	"innerd/backends"
	"innerd/events"
	"innerd/runs"
)

// Name is the backend's.
const Name = "tck"

// Backend is the agent. Delay is how long its slow scenarios take.
type Backend struct {
	Delay time.Duration
	gates sync.Map // of innerd-gated: a chan struct{} by its name, closed when it is open
}

// Intercept hands a message's id to the agent, and answers the one scenario
// that has no task. It is for a2a.Options.
func Intercept(_ context.Context, req *spec.SendMessageRequest, run *runs.Spec) *spec.Message {
	if run.Backend != "" && run.Backend != Name {
		return nil
	}
	id := req.Message.MessageID
	if strings.HasPrefix(id, "tck-message-response") {
		return &spec.Message{
			MessageID: "answer-to-" + id, ContextID: run.ContextID, Role: spec.RoleAgent, Parts: []spec.Part{spec.Text("Direct message response")},
		}
	}
	run.Settings.Options, _ = json.Marshal(map[string]string{"message_id": id})
	return nil
}

// Name implements backends.Backend.
func (*Backend) Name() string { return Name }

// Probe implements backends.Backend.
func (*Backend) Probe(context.Context) backends.Status {
	return backends.Status{Usable: true, Version: "1", Capabilities: backends.Capabilities{Resume: true, Questions: true, Tools: true, Permissions: true}}
}

// Open implements backends.Backend.
func (b *Backend) Open(_ context.Context, cfg backends.Config) (backends.Conversation, error) {
	if cfg.Session.Zero() {
		if err := cfg.Save(backends.Session{ID: cfg.ID}); err != nil {
			return nil, err
		}
	}
	return &conversation{b: b, done: make(chan struct{})}, nil
}

// Close implements backends.Backend.
func (*Backend) Close(context.Context) error { return nil }

type conversation struct {
	b    *Backend
	done chan struct{}
}

func (c *conversation) Done() <-chan struct{}       { return c.done }
func (c *conversation) Close(context.Context) error { return nil }

// act is one turn.
type act struct {
	ctx   context.Context
	h     backends.Host
	delay time.Duration
	gate  chan struct{} // of the name in the message's id
	n     int
}

// Run implements backends.Conversation.
func (c *conversation) Run(ctx context.Context, in backends.Input, h backends.Host) (backends.Outcome, error) {
	var opt struct {
		MessageID string `json:"message_id"`
	}
	_ = json.Unmarshal(in.Set.Options, &opt) // none: the default scenario
	a := &act{ctx: ctx, h: h, delay: c.b.Delay, gate: c.b.gate(opt.MessageID)}
	for _, s := range scenarios {
		if strings.HasPrefix(opt.MessageID, s.prefix) {
			return a.play(s.do)
		}
	}
	return a.play(func(a *act) error { return a.say("Hello from TCK") })
}

// gate is that which a message's id names between two points.
func (b *Backend) gate(messageID string) chan struct{} {
	_, name, _ := strings.Cut(messageID, ".")
	name, _, _ = strings.Cut(name, ".")
	g, _ := b.gates.LoadOrStore(name, make(chan struct{}))
	return g.(chan struct{})
}

func (a *act) play(do func(*act) error) (backends.Outcome, error) {
	// A turn must say something; thoughts are not shown to baseline clients.
	a.h.Emit(events.Event{Data: events.ReasoningDelta{Delta: "as the scenario says", ReasoningID: "r"}})
	a.h.Emit(events.Event{Data: events.Reasoning{ReasoningID: "r"}})
	if err := do(a); err != nil {
		return backends.Outcome{}, err
	}
	return backends.Outcome{Reason: backends.ReasonEndTurn, Stored: true}, nil
}

// scenarios are looked through in order: a longer prefix stands before one
// that begins it.
var scenarios = []struct {
	prefix string
	do     func(*act) error
}{
	{"tck-complete-task", func(a *act) error { return a.say("Hello from TCK") }},
	{"tck-delayed-complete", func(a *act) error {
		if err := a.sleep(a.delay); err != nil {
			return err
		}
		return a.say("Done after delay")
	}},
	{"tck-artifact-text", func(a *act) error { return a.say("Generated text content") }},
	{"tck-artifact-file-url", func(a *act) error {
		url := "https://example.com/output.txt"
		return a.artifact(spec.Part{URL: &url, Filename: "output.txt", MediaType: "text/plain"}, false, true)
	}},
	{"tck-artifact-file", file},
	{"tck-artifact-data", func(a *act) error {
		return a.artifact(spec.Data(json.RawMessage(`{"key":"value","count":42}`)), false, true)
	}},
	{"tck-input-required", ask},
	{"tck-reject-task", func(*act) error { return &backends.Error{Type: events.ErrInvalidRequest, Message: "rejected"} }},
	{"tck-stream-ordering-001", func(a *act) error {
		for i := range 5 {
			a.n = i
			if err := a.artifact(spec.Text(fmt.Sprintf("artifact %d", i+1)), false, true); err != nil {
				return err
			}
		}
		return nil
	}},
	{"tck-stream-artifact-text", func(a *act) error { return a.say("Streamed text content") }},
	{"tck-stream-artifact-file", file},
	{"tck-stream-artifact-chunked", func(a *act) error {
		for i := range 3 {
			if err := a.artifact(spec.Text(fmt.Sprintf("chunk-%d ", i+1)), i > 0, i == 2); err != nil {
				return err
			}
		}
		return nil
	}},
	{"tck-stream-", func(a *act) error { return a.say("Stream ", "hello ", "from ", "TCK") }},
	{"test-resubscribe-message-id", func(a *act) error {
		for i := range 10 {
			if err := a.say(fmt.Sprintf("still working %d", i)); err != nil {
				return err
			}
			if err := a.sleep(a.delay / 5); err != nil {
				return err
			}
		}
		return nil
	}},
	// Of our own, for what the kit does not look at.
	{"innerd-auth", func(a *act) error {
		a.h.Emit(events.Event{Data: events.Status{State: events.StateWaiting, ErrorType: events.ErrAuth, Detail: "Open https://login.example and enter CODE-1"}})
		if err := a.sleep(a.delay / 4); err != nil {
			return err
		}
		return a.say("logged in")
	}},
	{"innerd-hold", func(a *act) error { <-a.ctx.Done(); return context.Cause(a.ctx) }},
	// The first goes on in its middle when the second, of the same gate, has come.
	{"innerd-gated", func(a *act) error {
		for i := range 10 {
			if err := a.say(fmt.Sprintf("still working %d", i)); err != nil {
				return err
			}
			select {
			case <-a.gate:
			case <-a.ctx.Done():
				return context.Cause(a.ctx)
			}
		}
		return nil
	}},
	{"innerd-open", func(a *act) error { close(a.gate); return a.say("open") }},
}

func file(a *act) error {
	raw := spec.Base64(base64.StdEncoding.EncodeToString([]byte("file content")))
	return a.artifact(spec.Part{Raw: &raw, Filename: "output.txt", MediaType: "text/plain"}, false, true)
}

func ask(a *act) error {
	answer, err := a.h.Request(a.ctx, events.Request{
		Kind: events.KindQuestion, Message: "What shall I do?", Schema: json.RawMessage(`{"type":"string"}`),
	}).Wait()
	if err != nil {
		return err
	}
	var text string
	_ = json.Unmarshal(answer.Value, &text)
	return a.say("Thank you: " + text)
}

func (a *act) say(pieces ...string) error {
	a.n++
	id := fmt.Sprintf("m%d", a.n)
	for _, p := range pieces {
		a.h.Emit(events.Event{Data: events.MessageDelta{Delta: p, MessageID: id}})
	}
	a.h.Emit(events.Event{Data: events.Message{MessageID: id}})
	return context.Cause(a.ctx)
}

func (a *act) artifact(p spec.Part, more, last bool) error {
	raw, err := json.Marshal(spec.ArtifactUpdate{
		Artifact: spec.Artifact{ArtifactID: fmt.Sprintf("artifact-%d", a.n), Name: "result", Parts: []spec.Part{p}}, Append: more, LastChunk: last,
	})
	if err != nil {
		return err
	}
	a.h.Emit(events.Event{Data: events.Unknown{Type: a2a.TypeArtifact, Raw: raw}})
	return context.Cause(a.ctx)
}

func (a *act) sleep(d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-a.ctx.Done():
		return context.Cause(a.ctx)
	}
}
