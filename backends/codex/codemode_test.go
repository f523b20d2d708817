package codex_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/events"
	"innerd/test/modelstub"
)

// codeModel is one that writes programs which call the tools.
const codeModel = "gpt-6.2-sol"

// TestCodeMode: newer models write programs that call the tools; they are told
// and asked for like any.
func TestCodeMode(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c, s := b.open(t, backends.Config{},
		modelstub.Say(modelstub.Custom("exec", `const r = await tools.exec_command({cmd: "echo from the program"}); const h = await tools.lookup({a: 1}); text(r.output + h);`)),
		text("Programmed."))
	turn := backendtest.Turn{Permission: backends.PermissionAsk, Host: backendtest.Host{Replies: []backendtest.Reply{
		{Kind: events.KindPermission, Answer: events.Answer{Outcome: events.OutcomeAllowed}},
		{Kind: events.KindTool, Tool: "lookup", Answer: events.Answer{Outcome: events.OutcomeOK, Result: "from the host"}},
	}}}
	evs, _, err := run(t, c, turn, backends.Settings{Model: codeModel, Tools: []backends.Tool{tool("lookup")}})
	if err != nil || !slices.Equal(texts(evs), []string{"Programmed."}) {
		t.Fatal(texts(evs), err)
	}
	var calls []string
	for _, e := range evs {
		if d, ok := e.Data.(events.ToolComplete); ok {
			calls = append(calls, d.Name+": "+d.Result)
		}
	}
	if !slices.Equal(calls, []string{"exec_command: from the program\n"}) {
		t.Errorf("calls %q", calls)
	}
	if heard := s.Heard(); !strings.Contains(heard, "from the program") || !strings.Contains(heard, "from the host") {
		t.Errorf("the model heard %q", heard)
	}
}

const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// TestCodeModeImage: a program gets an image of the host's as a line of text. The
// model is told how it gets to see it, and sees it when it does so.
func TestCodeModeImage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c, s := b.open(t, backends.Config{},
		modelstub.Say(modelstub.Custom("exec", `const r = await tools.lookup({a: 1});
for (const line of r.split("\n")) line.startsWith("data:image/") ? image(line) : text(line);`)),
		text("I see."))
	turn := backendtest.Turn{Host: backendtest.Host{Replies: []backendtest.Reply{
		{Kind: events.KindTool, Tool: "lookup", Answer: events.Answer{Outcome: events.OutcomeOK, Content: []events.Part{
			events.Text("before it"), {Type: events.PartImage, MimeType: "image/png", Data: pixel}, events.Text("after it"),
		}}},
	}}}
	if _, _, err := run(t, c, turn, backends.Settings{Model: codeModel, Tools: []backends.Tool{tool("lookup")}}); err != nil {
		t.Fatal(err)
	}
	all := s.sc.Requests()
	if len(all) != 2 {
		t.Fatalf("%d requests", len(all))
	}
	if !bytes.Contains(all[0].Body, []byte("is a line that begins with data:image/")) {
		t.Error("the model was not told how a program shows an image")
	}
	for _, want := range []string{`"text":"before it"`, `"text":"after it"`, `"type":"input_image","image_url":"data:image/png;base64,` + pixel + `"`} {
		if !bytes.Contains(all[1].Body, []byte(want)) {
			t.Errorf("the model did not get %s", want)
		}
	}
}

// gated is a host whose tools answer when the gate is open.
type gated struct {
	backends.Host
	gate <-chan struct{}
}

func (h gated) Request(ctx context.Context, r events.Request) backends.Pending {
	return behind{h.Host.Request(ctx, r), h.gate}
}

type behind struct {
	backends.Pending
	gate <-chan struct{}
}

func (p behind) Wait() (events.Answer, error) {
	<-p.gate
	return p.Pending.Wait()
}

// TestCodeModeLongCall: a call of the host's that takes longer than a program is
// waited for goes on: the model waits for the program, and gets the answer.
func TestCodeModeLongCall(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c, s := b.open(t, backends.Config{})
	gate := make(chan struct{})
	asked := 0
	s.sc.Func(func(r modelstub.Request) modelstub.Turn {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch asked++; asked {
		case 1:
			return modelstub.Say(modelstub.Custom("exec", "// @exec: {\"yield_time_ms\": 200}\ntext(await tools.lookup({a: 1}));"))
		case 2:
			if !bytes.Contains(r.Body, []byte("Script running with cell ID 1")) {
				t.Errorf("the program did not yield: %s", r.Body)
			}
			close(gate)
			return modelstub.Say(modelstub.Tool("wait", map[string]any{"cell_id": "1"}))
		}
		return text("At last.")
	})
	rec := backendtest.NewRecorder(backendtest.Turn{Host: backendtest.Host{Replies: []backendtest.Reply{
		{Kind: events.KindTool, Tool: "lookup", Answer: events.Answer{Outcome: events.OutcomeOK, Result: "from the host"}},
	}}}, nil, nil)
	_, err := c.Run(t.Context(), backends.Input{
		Parts: []events.Part{events.Text("Go.")},
		Set:   backends.Settings{Model: codeModel, Tools: []backends.Tool{tool("lookup")}, Options: backendtest.AutoOptions},
	}, gated{rec, gate})
	rec.Close()
	if err != nil || !slices.Equal(texts(rec.Events()), []string{"At last."}) {
		t.Fatal(texts(rec.Events()), err)
	}
	if heard := s.Heard(); !strings.Contains(heard, "from the host") {
		t.Errorf("the model heard %q", heard)
	}
}
