package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"innerd/events"
	"innerd/host"
)

type order struct {
	Item    string `json:"item"`
	Card    string `json:"card" jsonschema_description:"number of a credit card"`
	Comment string `json:"comment,omitempty"`
}

func buy(_ context.Context, o order) (string, error) { return o.Item + " paid with " + o.Card, nil }

// one call of buy, whose pause is answered in the loop over the stream.
func paused(t *testing.T, change func(*host.ToolDef), answer func(*host.Pause)) (*fake, []events.Event) {
	t.Helper()
	f := newFake(t, func(f *fake) {
		f.begin()
		f.say(events.ToolRequest{ToolCallID: "tc_1", ToolName: "buy", Arguments: json.RawMessage(`{"item":"tea"}`)})
		r := f.result("tc_1")
		f.say(resolved("tc_1", r))
		f.end()
	})
	tool := host.Tool("buy", "buys", buy)
	change(&tool)
	var all []events.Event
	for ev, err := range f.client().Stream(t.Context(), withTools(tool)) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, ev)
		if p, ok := ev.Data.(*host.Pause); ok {
			answer(p)
		}
	}
	return f, all
}

func TestPauses(t *testing.T) {
	confirm := func(d *host.ToolDef) { d.RequiresConfirmation = true }
	input := func(d *host.ToolDef) { d.RequiresInput = []string{"card"} }
	external := func(d *host.ToolDef) { d.External, d.Run = true, nil }
	for name, c := range map[string]struct {
		change func(*host.ToolDef)
		kind   string
		answer func(*host.Pause) error
		want   string
		bad    bool
	}{
		"confirmed":  {confirm, host.PauseConfirmation, (*host.Pause).Confirm, "tea paid with ", false},
		"declined":   {confirm, host.PauseConfirmation, func(p *host.Pause) error { return p.Deny("") }, "the user declined", true},
		"input":      {input, host.PauseInput, func(p *host.Pause) error { return p.Provide(map[string]any{"card": "4711"}) }, "tea paid with 4711", false},
		"no input":   {input, host.PauseInput, func(p *host.Pause) error { return p.Deny("no card") }, "no card", true},
		"elsewhere":  {external, host.PauseExternal, func(p *host.Pause) error { return p.Resolve(host.Result{Text: "shipped"}) }, "shipped", false},
		"not at all": {external, host.PauseExternal, func(p *host.Pause) error { return p.Deny("closed") }, "closed", true},
	} {
		t.Run(name, func(t *testing.T) {
			f, all := paused(t, c.change, func(p *host.Pause) {
				if p.Kind != c.kind || p.Call.ToolName != "buy" || string(p.Call.Arguments) != `{"item":"tea"}` {
					t.Errorf("%+v", p)
				}
				for kind, wrong := range map[string]func() error{
					host.PauseConfirmation: p.Confirm,
					host.PauseInput:        func() error { return p.Provide(nil) },
					host.PauseExternal:     func() error { return p.Resolve(host.Result{}) },
				} {
					if kind != p.Kind && wrong() == nil {
						t.Errorf("a pause for %s took an answer for %s", p.Kind, kind)
					}
				}
				if err := c.answer(p); err != nil {
					t.Error(err)
				}
				if err := c.answer(p); !errors.Is(err, host.ErrPauseOver) {
					t.Errorf("answered twice: %v", err)
				}
			})
			if r := f.seen().results["tc_1"]; len(r) != 1 || r[0].Result != c.want || r[0].IsError != c.bad {
				t.Errorf("%+v", r)
			}
			at := slices.IndexFunc(all, func(e events.Event) bool { return e.Type() == host.TypePause })
			if at < 1 || all[at-1].Type() != events.TypeToolRequest || all[at].ID != 0 {
				t.Errorf("the pause is event %d", at)
			}
		})
	}
}

// The agent is not asked for what the user gives, and the host is told what
// that is.
func TestInputIsTakenOutOfTheSchema(t *testing.T) {
	f, _ := paused(t, func(d *host.ToolDef) { d.RequiresInput = []string{"card", "comment"} }, func(p *host.Pause) {
		want := `{"type":"object","required":["card"],"properties":{"card":{"type":"string","description":"number of a credit card"},"comment":{"type":"string"}}}`
		if a, b := asAny(t, want), asAny(t, string(p.Schema)); !equalJSON(a, b) {
			t.Errorf("%s", p.Schema)
		}
		if err := p.Deny(""); err != nil {
			t.Error(err)
		}
	})
	want := `{"type":"object","required":["item"],"properties":{"item":{"type":"string"}}}`
	if got := f.seen().request.Metadata.Tools[0].Parameters; !equalJSON(asAny(t, want), asAny(t, string(got))) {
		t.Errorf("offered %s", got)
	}
}

func equalJSON(a, b any) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}

// A pause that nobody answers ends with its call, and later answers are refused.
func TestPauseEndsWithItsCall(t *testing.T) {
	f := newFake(t, func(f *fake) {
		f.begin()
		f.say(call("tc_1", "buy"))
		f.say(events.ToolResolved{ToolCallID: "tc_1", Outcome: events.OutcomeTimeout})
		f.end()
	})
	tool := host.Tool("buy", "buys", buy)
	tool.RequiresConfirmation = true
	var p *host.Pause
	for ev, err := range f.client().Stream(t.Context(), withTools(tool)) {
		if err != nil {
			t.Fatal(err)
		}
		switch d := ev.Data.(type) {
		case *host.Pause:
			p = d
		case events.ToolResolved:
			<-p.Done()
		}
	}
	if err := p.Confirm(); !errors.Is(err, host.ErrPauseOver) || len(f.seen().results) != 0 {
		t.Errorf("%v, results %v", err, f.seen().results)
	}
}
