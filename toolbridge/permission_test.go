package toolbridge_test

import (
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"innerd/events"
	"innerd/toolbridge"
)

func permission(tool, input string) events.Request {
	return events.Request{Kind: events.KindPermission, Tool: tool, Input: json.RawMessage(input)}
}

func TestPermissionByPolicy(t *testing.T) {
	for mode, want := range map[string]events.Answer{
		"auto": {Outcome: events.OutcomeAllowed, By: "policy"},
		"":     {Outcome: events.OutcomeAllowed, By: "policy"},
		"deny": {Outcome: events.OutcomeDenied, By: "policy", Message: "denied: permissions are not given in this run"},
	} {
		opened := false
		b, s, r := open(t, func(c *toolbridge.SessionConfig) {
			c.Permission = mode
			c.OnOpen = func(events.RequestKind, int) { opened = true }
		})
		p := s.Request(t.Context(), permission("Bash", `{"command":"ls"}`))
		got, err := p.Wait()
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Error(mode, d, err)
		}
		wantLog := []events.Data{
			events.PermissionRequest{RequestID: p.ID(), Tool: "Bash", Input: json.RawMessage(`{"command":"ls"}`), Options: []events.PermissionOption{
				{ID: "allow_once", Kind: "allow_once", Label: "Allow once"},
				{ID: "allow_always", Kind: "allow_always", Label: "Always allow this input in this conversation"},
				{ID: "deny", Kind: "deny", Label: "Deny"},
			}},
			events.PermissionResolved{RequestID: p.ID(), Outcome: want.Outcome, By: "policy", Message: want.Message},
		}
		if d := cmp.Diff(wantLog, r.events()); d != "" {
			t.Error(mode, d)
		}
		if opened {
			t.Error("opened")
		}
		if err := b.Answer("default", "run-1", p.ID(), toolbridge.Reply{Option: "deny"}); !errors.Is(err, toolbridge.ErrAnswered) {
			t.Error(err)
		}
	}
}

func TestPermissionAsk(t *testing.T) {
	for _, mode := range []string{"ask", "a mode of tomorrow"} {
		b, s, r := open(t, func(c *toolbridge.SessionConfig) { c.Permission = mode })
		p := s.Request(t.Context(), permission("Bash", `{"command":"ls"}`))
		for _, c := range []struct {
			owner, run, id string
			reply          toolbridge.Reply
			want           error
		}{
			{"eve", "run-1", p.ID(), toolbridge.Reply{Option: "allow_once"}, toolbridge.ErrNotFound},
			{"default", "run-2", p.ID(), toolbridge.Reply{Option: "allow_once"}, toolbridge.ErrNotFound},
			{"default", "run-1", "rq_x", toolbridge.Reply{Option: "allow_once"}, toolbridge.ErrNotFound},
			{"default", "run-1", p.ID(), toolbridge.Reply{Option: "allow"}, toolbridge.ErrInvalid},
			{"default", "run-1", p.ID(), toolbridge.Reply{Value: json.RawMessage(`true`)}, toolbridge.ErrInvalid},
			{"default", "run-1", p.ID(), toolbridge.Reply{Option: "deny"}, nil},
			{"default", "run-1", p.ID(), toolbridge.Reply{Option: "deny"}, toolbridge.ErrAnswered},
			{"eve", "run-1", p.ID(), toolbridge.Reply{Option: "deny"}, toolbridge.ErrNotFound},
		} {
			if err := b.Answer(c.owner, c.run, c.id, c.reply); !errors.Is(err, c.want) {
				t.Errorf("%+v: %v", c, err)
			}
		}
		if v := b.ToolResult("default", p.ID(), toolbridge.Result{}); v != toolbridge.NotFound {
			t.Error(v)
		}
		a, err := p.Wait()
		if d := cmp.Diff(events.Answer{Outcome: "denied", By: "host", Message: "denied by the user"}, a); d != "" || err != nil {
			t.Error(d, err)
		}
		if d := cmp.Diff(events.Data(events.PermissionResolved{RequestID: p.ID(), Outcome: "denied", By: "host"}), r.events()[1]); d != "" {
			t.Error(d)
		}
	}
}

func TestPermissionMemory(t *testing.T) {
	m := toolbridge.NewMemory()
	b, s, r := open(t, func(c *toolbridge.SessionConfig) { c.Permission, c.Memory = "ask", m })
	answer := func(input string, reply toolbridge.Reply) {
		t.Helper()
		p := s.Request(t.Context(), permission("Bash", input))
		if err := b.Answer("default", "run-1", p.ID(), reply); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	remembered := func(tool, input string) bool {
		p := s.Request(t.Context(), permission(tool, input))
		if len(s.Pending()) > 0 {
			_ = b.Answer("default", "run-1", p.ID(), toolbridge.Reply{Option: "deny"})
			return false
		}
		a, _ := p.Wait()
		return a.Outcome == "allowed" && a.By == "policy"
	}
	answer(`{"once":1}`, toolbridge.Reply{Option: "allow_once"})
	answer(`{"a":1,"b":{"x":1.0,"y":2}}`, toolbridge.Reply{Option: "allow_always"})
	answer(`{"r":1}`, toolbridge.Reply{Option: "allow_once", Remember: true})
	answer(`{"d":1}`, toolbridge.Reply{Option: "deny", Remember: true})
	for _, c := range []struct {
		tool, input string
		want        bool
	}{
		{"Bash", `{"once":1}`, false},
		{"Bash", `{ "b": {"y":2, "x":1.0}, "a":1 }`, true},
		{"Bash", `{"a":1,"b":{"x":1.0,"y":3}}`, false},
		{"Bash", `{"a":1}`, false},
		{"Write", `{"a":1,"b":{"x":1.0,"y":2}}`, false},
		{"Bash", `{"r":1}`, true},
		{"Bash", `{"d":1}`, false},
	} {
		if got := remembered(c.tool, c.input); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	// Another run of the conversation has it too.
	s2 := b.Open(toolbridge.SessionConfig{RunID: "run-2", Owner: "default", Permission: "ask", Memory: m, Log: r.log})
	defer s2.Close(nil)
	if a, _ := s2.Request(t.Context(), permission("Bash", `{"r":1}`)).Wait(); a.Outcome != "allowed" {
		t.Error(a)
	}
}

func TestPermissionExpiresAsDeny(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, s, r := open(t, func(c *toolbridge.SessionConfig) { c.Permission = "ask" })
		begin := time.Now()
		p := s.Request(t.Context(), permission("Bash", `{}`))
		a, err := p.Wait()
		if want := (events.Answer{Outcome: "expired", By: "timeout", Message: "denied: nobody answered within 10m0s"}); !cmp.Equal(want, a) || err != nil {
			t.Errorf("%+v %v", a, err)
		}
		if d := time.Since(begin); d != 10*time.Minute {
			t.Error(d)
		}
		if d := cmp.Diff(events.Data(events.PermissionResolved{RequestID: p.ID(), Outcome: "expired", By: "timeout", Message: a.Message}), r.events()[1]); d != "" {
			t.Error(d)
		}
		if err := b.Answer("default", "run-1", p.ID(), toolbridge.Reply{Option: "allow_once"}); !errors.Is(err, toolbridge.ErrAnswered) {
			t.Error(err)
		}
	})
}

// An input that is not JSON is logged as a string of it.
func TestPermissionInputIsNotJSON(t *testing.T) {
	_, s, r := open(t, nil)
	s.Request(t.Context(), permission("Bash", `ls -l`))
	s.Request(t.Context(), permission("Bash", ``))
	if got := string(r.events()[0].(events.PermissionRequest).Input); got != `"ls -l"` {
		t.Error(got)
	}
	if got := string(r.events()[2].(events.PermissionRequest).Input); got != `{}` {
		t.Error(got)
	}
}
