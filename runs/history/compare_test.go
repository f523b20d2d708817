package history_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"innerd/runs/history"
)

func user(text string) history.Message      { return history.Message{Role: "user", Text: text} }
func assistant(text string) history.Message { return history.Message{Role: "assistant", Text: text} }

func summary(text string) history.Message {
	return history.Message{Role: "assistant", Text: text, Summary: true}
}

// agent plays the turns of one conversation, as runs does.
type agent struct {
	rec history.Record
	now int64
}

func (a *agent) accept() int64 { a.now++; return a.now }

// begin is a turn up to its prompt; end is the rest.
func (a *agent) begin(run string, accepted int64, hist []history.Message, prompt string) history.Decision {
	d := history.Compare(a.rec, hist, accepted)
	a.rec.Told(run, a.accept(), d, user(prompt))
	return d
}

func (a *agent) end(run string, stored bool, said ...string) {
	a.rec.Said(run, a.accept(), said, stored)
	// The record is stored between turns.
	b, err := json.Marshal(a.rec)
	if err != nil {
		panic(err)
	}
	a.rec = history.Record{}
	if err := json.Unmarshal(b, &a.rec); err != nil {
		panic(err)
	}
}

func (a *agent) turn(run string, hist []history.Message, prompt string, said ...string) history.Decision {
	d := a.begin(run, a.accept(), hist, prompt)
	a.end(run, true, said...)
	return d
}

// told writes a decision as "mode: text, ?text" with ? for what may be known.
func told(d history.Decision) string {
	var out []string
	for i, m := range d.Tell {
		text := m.Text
		if text == "" {
			text = m.Role
		}
		if d.MayBeKnown(i) {
			text = "?" + text
		}
		out = append(out, text)
	}
	return strings.TrimSpace(string(d.Mode) + ": " + strings.Join(out, ", "))
}

// twoTurns is an agent that knows u1 a1 u2 a2, told and said in two turns.
func twoTurns() *agent {
	a := &agent{}
	a.turn("r1", nil, "u1", "a1")
	a.turn("r2", []history.Message{user("u1"), assistant("a1")}, "u2", "draft", "a2")
	return a
}

func TestCompare(t *testing.T) {
	call := history.Message{Role: "assistant", ToolCalls: []history.ToolCall{{Name: "x"}}}
	result := history.Message{Role: "tool", Text: "result"}
	for _, c := range []struct {
		name string
		hist []history.Message
		want string
	}{
		{"all known, the last message kept", []history.Message{user("u1"), assistant("a1"), user("u2"), assistant("a2")}, "continue:"},
		{"all known, all messages kept", []history.Message{user("u1"), assistant("a1"), user("u2"), assistant("draft"), assistant("a2")}, "continue:"},
		{"all known, joined by the host", []history.Message{user("u1"), assistant("a1"), user("u2"), assistant("draft\n\na2")}, "continue:"},
		{"all known, the first message kept", []history.Message{user("u1"), assistant("a1"), user("u2"), assistant("draft")}, "continue:"},
		{"all known, with tools between", []history.Message{user("u1"), call, result, assistant("a1"), user("u2"), assistant("draft"), call, result, assistant("a2")}, "continue:"},
		{"white space", []history.Message{user("  u1\n"), assistant("a1\u2028"), user("u2\t"), assistant(" a2 ")}, "continue:"},
		{"empty messages", []history.Message{user(" "), user("u1"), assistant(""), assistant("a1"), user("u2"), assistant("a2"), assistant("\n")}, "continue:"},
		{"an answer in the middle is not kept", []history.Message{user("u1"), user("u2"), assistant("a2")}, "continue:"},
		{"a turn more", []history.Message{user("u1"), assistant("a1"), user("u2"), assistant("a2"), user("u3"), call, result, assistant("a3")}, "tell: u3, assistant, result, a3"},
		{"a user message more", []history.Message{user("u1"), assistant("a1"), user("u2"), assistant("a2"), user("u3")}, "tell: u3"},
		{"an assistant message more", []history.Message{user("u1"), assistant("a1"), user("u2"), assistant("a2"), assistant("b")}, "tell: b"},
		{"one before all", []history.Message{assistant("hello"), user("u1"), assistant("a1"), user("u2"), assistant("a2")}, "tell: hello"},
		{"the last answer differs", []history.Message{user("u1"), assistant("a1"), user("u2"), assistant("other")}, "tell: other"},
		{"an answer in the middle differs", []history.Message{user("u1"), assistant("other"), user("u2"), assistant("a2")}, "tell: other"},
		{"one answer differs, one is more", []history.Message{user("u1"), assistant("x"), assistant("a1"), user("u2"), assistant("a2"), assistant("y"), user("z")}, "tell: x, y, z"},
		{"said once, kept twice", []history.Message{user("u1"), assistant("a1"), assistant("a1"), user("u2"), assistant("a2")}, "tell: a1"},
		{"edit of the last", []history.Message{user("u1"), assistant("a1")}, "new: u1, a1"},
		{"edit of the first", nil, "new:"},
		{"the last answer was taken back", []history.Message{user("u1"), assistant("a1"), user("u2")}, "new: u1, a1, u2"},
		{"a user message differs", []history.Message{user("u1"), assistant("a1"), user("other"), assistant("a2")}, "new: u1, a1, other, a2"},
		{"another user", []history.Message{user("v1"), assistant("b1")}, "new: v1, b1"},
		{"a message before the first", []history.Message{user("u0"), user("u1"), assistant("a1"), user("u2"), assistant("a2")}, "new: u0, u1, a1, u2, a2"},
		{"a summary of all", []history.Message{summary("s")}, "continue:"},
		{"a summary of the first turn", []history.Message{summary("s"), user("u2"), assistant("a2")}, "continue:"},
		{"a summary in the middle of a turn", []history.Message{summary("s"), assistant("a2")}, "continue:"},
		{"a summary after messages", []history.Message{user("gone"), assistant("x"), summary("s"), user("u2"), assistant("a2")}, "continue:"},
		{"a summary of nothing", []history.Message{summary("s"), user("u1"), assistant("a1"), user("u2"), assistant("a2")}, "continue:"},
		{"a summary, then more", []history.Message{summary("s"), user("u2"), assistant("a2"), user("u3")}, "tell: u3"},
		{"a summary of all, then more", []history.Message{summary("s"), user("u3"), assistant("a3")}, "tell: u3, a3"},
		{"a summary, and the last turn taken back", []history.Message{summary("s"), user("u1")}, "new: s, u1"},
		{"case counts", []history.Message{user("U1"), assistant("a1"), user("u2"), assistant("a2")}, "new: U1, a1, u2, a2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := twoTurns()
			d := history.Compare(a.rec, c.hist, a.accept())
			if got := told(d); got != c.want {
				t.Fatalf("%s (%s), want %s", got, d.Reason, c.want)
			}
			if d.Reason == "" {
				t.Error("no reason")
			}
			// Once told, the same history with the next turn is known.
			if d.Mode == history.New && len(c.hist) == 0 {
				return
			}
			a.rec.Told("r3", a.accept(), d, user("next"))
			a.end("r3", true, "answer")
			again := append(append([]history.Message(nil), c.hist...), user("next"), assistant("answer"))
			if got := told(history.Compare(a.rec, again, a.accept())); got != "continue:" {
				t.Errorf("afterwards %s", got)
			}
		})
	}
}

func TestEqualTexts(t *testing.T) {
	a := &agent{}
	var hist []history.Message
	for i := range 4 {
		if got := told(a.turn(fmt.Sprint("r", i), hist, "go on", "ok")); got != "continue:" {
			t.Error(i, got)
		}
		hist = append(hist, user("go on"), assistant("ok"))
	}
	if got := told(history.Compare(a.rec, hist[:6], a.accept())); got != "new: go on, ok, go on, ok, go on, ok" {
		t.Error(got)
	}
	// A summary stands for as little as it can.
	if got := told(history.Compare(a.rec, append([]history.Message{summary("s")}, hist[4:]...), a.accept())); got != "continue:" {
		t.Error(got)
	}
}

func TestUnsureEnd(t *testing.T) {
	known := []history.Message{user("u1"), assistant("a1"), user("u2"), assistant("a2")}
	for _, c := range []struct {
		name string
		said []string
		hist []history.Message // after known
		want string
	}{
		{"the host kept the prompt", []string{"par"}, []history.Message{user("u3")}, "tell: ?u3"},
		{"the host kept both", []string{"par"}, []history.Message{user("u3"), assistant("par")}, "tell: ?u3, ?par"},
		{"the host's own answer", []string{"par"}, []history.Message{user("u3"), assistant("own")}, "tell: ?u3, own"},
		{"the host kept nothing", []string{"par"}, nil, "new: u1, a1, u2, a2"},
		{"nothing was said", nil, []history.Message{user("u3")}, "tell: ?u3"},
		{"more after it", []string{"par"}, []history.Message{user("u3"), assistant("par"), user("u4")}, "tell: ?u3, ?par, u4"},
		{"another prompt", []string{"par"}, []history.Message{user("v3")}, "new: u1, a1, u2, a2, v3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := twoTurns()
			a.begin("r3", a.accept(), known, "u3")
			a.end("r3", false, c.said...)
			hist := append(append([]history.Message(nil), known...), c.hist...)
			d := a.begin("r4", a.accept(), hist, "next")
			if got := told(d); got != c.want {
				t.Fatalf("%s (%s), want %s", got, d.Reason, c.want)
			}
			// It fails again: told again. It succeeds: known.
			a.end("r4", false)
			hist = append(hist, user("next"))
			d = a.begin("r5", a.accept(), hist, "last")
			if d.Mode == history.New || !d.MayBeKnown(len(d.Tell)-1) {
				t.Errorf("the second time: %s", told(d))
			}
			a.end("r5", true, "done")
			hist = append(hist, user("last"), assistant("done"))
			if got := told(history.Compare(a.rec, hist, a.accept())); got != "continue:" {
				t.Errorf("afterwards %s", got)
			}
		})
	}
}

// A server that died in a turn never said how it ended.
func TestUnfinishedTurn(t *testing.T) {
	a := twoTurns()
	known := []history.Message{user("u1"), assistant("a1"), user("u2"), assistant("a2")}
	a.begin("r3", a.accept(), known, "u3")
	d := history.Compare(a.rec, append(known, user("u3")), a.accept())
	if got := told(d); got != "tell: ?u3" {
		t.Error(got)
	}
}

// A request that was accepted before another run added its units can't have
// them in its history.
func TestConcurrentRuns(t *testing.T) {
	known := []history.Message{user("u1"), assistant("a1"), user("u2"), assistant("a2")}
	t.Run("both wait", func(t *testing.T) {
		a := twoTurns()
		first, second := a.accept(), a.accept()
		a.begin("r3", first, known, "x")
		a.end("r3", true, "ax")
		if got := told(a.begin("r4", second, known, "y")); got != "continue:" {
			t.Error(got)
		}
		a.end("r4", true, "ay")
		hist := append(append([]history.Message(nil), known...), user("x"), assistant("ax"), user("y"), assistant("ay"))
		if got := told(history.Compare(a.rec, hist, a.accept())); got != "continue:" {
			t.Error(got)
		}
	})
	t.Run("the host added something of its own", func(t *testing.T) {
		a := twoTurns()
		first, second := a.accept(), a.accept()
		a.begin("r3", first, known, "x")
		a.end("r3", true, "ax")
		hist := append(append([]history.Message(nil), known...), user("own"), assistant("answer"))
		if got := told(a.begin("r4", second, hist, "y")); got != "tell: own, answer" {
			t.Error(got)
		}
	})
	t.Run("the host has the prompt and not yet the answer", func(t *testing.T) {
		a := twoTurns()
		a.begin("r3", a.accept(), known, "x")
		second := a.accept()
		a.end("r3", true, "ax")
		hist := append(append([]history.Message(nil), known...), user("x"))
		if got := told(history.Compare(a.rec, hist, second)); got != "continue:" {
			t.Error(got)
		}
	})
	t.Run("the prompt is edited while it runs", func(t *testing.T) {
		a := twoTurns()
		a.begin("r3", a.accept(), known, "x")
		second := a.accept()
		a.end("r3", false)
		if got := told(history.Compare(a.rec, known, second)); got != "new: u1, a1, u2, a2" {
			t.Error(got)
		}
	})
}

func TestNewSession(t *testing.T) {
	a := twoTurns()
	hist := []history.Message{user("v1"), assistant("b1"), {Role: "tool", Text: "r"}, user("v2")}
	// A caller may decide for a new session by itself.
	a.rec.Told("r3", a.accept(), history.Decision{Mode: history.New, Tell: hist}, user("v3"))
	a.end("r3", true, "b3")
	if n := len(a.rec.Units); n != 5 {
		t.Errorf("%d units", n)
	}
	if got := told(history.Compare(a.rec, append(hist, user("v3"), assistant("b3")), a.accept())); got != "continue:" {
		t.Error(got)
	}
	var empty history.Record
	if got := told(history.Compare(empty, hist, 1)); got != "tell: v1, b1, r, v2" {
		t.Error(got)
	}
}

// A copy of a record is not changed by what its original goes on with.
func TestRecordCopies(t *testing.T) {
	a := twoTurns()
	a.begin("r3", a.accept(), []history.Message{user("u1"), assistant("a1"), user("u2"), assistant("a2")}, "u3")
	was := a.rec
	before, _ := json.Marshal(was)
	a.rec.Said("r3", a.accept(), []string{"a3"}, true)
	a.rec.Told("r4", a.accept(), history.Compare(a.rec, []history.Message{summary("s")}, a.accept()), user("u4"))
	after, _ := json.Marshal(was)
	if d := cmp.Diff(string(before), string(after)); d != "" {
		t.Error(d)
	}
}

func TestSplit(t *testing.T) {
	sys, dev := history.Message{Role: "system", Text: " S "}, history.Message{Role: "developer", Text: "D"}
	for name, c := range map[string]struct {
		msgs   []history.Message
		hist   []history.Message
		prompt string
		ok     bool
	}{
		"empty":            {nil, nil, "", false},
		"no user":          {[]history.Message{sys, assistant("a")}, []history.Message{assistant("a")}, "", false},
		"last user":        {[]history.Message{sys, user("1"), assistant("a"), dev, user("2")}, []history.Message{user("1"), assistant("a")}, "2", true},
		"more after it":    {[]history.Message{user("1"), assistant("a"), {Role: "tool", Text: "r"}}, []history.Message{assistant("a"), {Role: "tool", Text: "r"}}, "1", true},
		"summary of users": {[]history.Message{user("1"), {Role: "user", Text: "s", Summary: true}}, []history.Message{{Role: "user", Text: "s", Summary: true}}, "1", true},
		"only a summary":   {[]history.Message{{Role: "user", Text: "s", Summary: true}}, nil, "s", true},
	} {
		hist, prompt, ok := history.Split(c.msgs)
		if d := cmp.Diff(c.hist, hist); d != "" || prompt.Text != c.prompt || ok != c.ok {
			t.Errorf("%s: %s %q %v", name, d, prompt.Text, ok)
		}
	}
	if got := history.System([]history.Message{sys, user("x"), {Role: "system"}, dev}); got != "S\n\nD" {
		t.Errorf("%q", got)
	}
}

// A long history costs neither a cube nor a square of its length.
func TestLongHistory(t *testing.T) {
	a := twoTurns()
	var hist []history.Message
	for i := range 3000 {
		hist = append(hist, assistant(fmt.Sprint(i, strings.Repeat(" word", 400))))
	}
	begin := time.Now()
	d := history.Compare(a.rec, append([]history.Message{summary("s"), user("u2"), assistant("a2")}, hist...), a.accept())
	if len(d.Tell) != 3000 || d.Mode != history.Tell {
		t.Errorf("%s: %d", d.Mode, len(d.Tell))
	}
	if took := time.Since(begin); took > 20*time.Second { // 0.2 s here; a cube would be days
		t.Error(took)
	}
	t.Log(time.Since(begin))
}
