package claudecode_test

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/events"
	"innerd/test/modelstub"
)

// answering has the seat's model answer by what it is asked.
func (s *seat) answering(f func(r modelstub.Request) modelstub.Turn) { s.sc.Func(f) }

func bash(command string) modelstub.Block {
	return modelstub.Tool("Bash", map[string]any{"command": command, "description": "A command"})
}

// watched is a host that calls a function at the first event of a type.
type watched struct {
	backends.Host
	on   events.Type
	call func()
	once sync.Once
	next atomic.Pointer[func()] // called once, at the next sign of life
}

func (w *watched) Emit(e events.Event) {
	w.Host.Emit(e)
	if e.Type() == w.on {
		w.once.Do(w.call)
	}
	if f := w.next.Swap(nil); f != nil && e.Data == nil {
		(*f)()
	} else if f != nil {
		w.next.Store(f)
	}
}

// runWatching is run, with call at the first event of the type on.
func runWatching(t *testing.T, c backends.Conversation, set backends.Settings, on events.Type, call func(*watched)) ([]events.Event, backends.Outcome, error) {
	t.Helper()
	rec := backendtest.NewRecorder(backendtest.Turn{}, nil, nil)
	w := &watched{Host: rec, on: on}
	w.call = func() { call(w) }
	out, err := c.Run(t.Context(), backends.Input{Parts: []events.Part{events.Text("Go.")}, Set: set}, backendtest.AutoHost{Host: w})
	rec.Close()
	return rec.Events(), out, err
}

func compact(t *testing.T, c backends.Conversation) error {
	t.Helper()
	return c.(backends.Compacter).Compact(t.Context())
}

func states(evs []events.Event) (out []string) {
	for _, e := range evs {
		if s, ok := e.Data.(events.Status); ok {
			out = append(out, s.State)
		}
	}
	return out
}

// TestCompact: claude's memory is summed up, on request and by itself; nothing
// of that is an answer, and the conversation goes on, also in another process.
func TestCompact(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var mu sync.Mutex
	var strays []events.Event
	conv, s := b.open(t, backends.Config{Stray: func(e events.Event) {
		mu.Lock()
		defer mu.Unlock()
		strays = append(strays, e)
	}})
	full := false
	s.answering(func(r modelstub.Request) modelstub.Turn {
		switch {
		case strings.Contains(r.Prompt(), "TEXT ONLY"):
			return text("<summary>THE-SUMMARY</summary>")
		case full:
			full = false
			return text("filled").Uses(modelstub.Usage{Input: 990_000, Output: 5})
		}
		return text("fine")
	})
	if err := compact(t, conv); class(err) != events.ErrInvalidRequest {
		t.Errorf("a conversation that has not begun: %v", err)
	}
	first, _, err := run(t, conv, backendtest.Turn{Prompt: "FIRST-PROMPT"}, backends.Settings{})
	if err != nil || len(states(first)) != 0 {
		t.Fatal(states(first), err)
	}
	if err := compact(t, conv); err != nil {
		t.Fatal(err)
	}
	if got := states(strays); !slices.Equal(got, []string{events.StateCompacting, events.StateWorking}) {
		t.Errorf("states outside a run: %q", got)
	}
	full = true
	if _, _, err := run(t, conv, backendtest.Turn{}, backends.Settings{}); err != nil {
		t.Fatal(err)
	}
	if h := s.Heard(); !strings.Contains(h, "THE-SUMMARY") || strings.Contains(h, "FIRST-PROMPT") {
		t.Error("the model is not told the summary instead of what it stands for")
	}
	evs, _, err := run(t, conv, backendtest.Turn{}, backends.Settings{}) // compacts by itself
	if err != nil {
		t.Fatal(err)
	}
	if got := states(evs); !slices.Equal(got, []string{events.StateCompacting, events.StateWorking}) {
		t.Errorf("states: %q", got)
	}
	if got := texts(evs); !slices.Equal(got, []string{"fine"}) {
		t.Errorf("said %q", got)
	}
	if _, _, err := run(t, conv, backendtest.Turn{}, backends.Settings{System: "Be brief."}); err != nil { // another process
		t.Fatal(err)
	}
	if !strings.Contains(s.Heard(), "THE-SUMMARY") {
		t.Error("the resumed session lost the summary")
	}
	s.answering(func(modelstub.Request) modelstub.Turn { return modelstub.Fail(400) })
	if err := compact(t, conv); class(err) != events.ErrInvalidRequest || !strings.Contains(err.Error(), "400") {
		t.Error(err)
	}
}

// TestBackground: work in the background ends with the run, or the run waits
// for it, but not for ever; each run has one end, and the next one works.
func TestBackground(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	start := func(command string) modelstub.Turn {
		return modelstub.Say(modelstub.Tool("Bash", map[string]any{"command": command, "description": "x", "run_in_background": true}))
	}
	for _, c := range []struct {
		name, policy, command string
		said                  []string
		ends                  string
		limit                 time.Duration
	}{
		{"end", "", "sleep 271828", []string{"It runs."}, "stopped", 0},
		{"wait", backends.BackgroundWait, "sleep 0.3; echo over", []string{"It runs.", "I heard that it is over."}, "completed", 0},
		{"wait too long", backends.BackgroundWait, "sleep 314159", []string{"It runs."}, "stopped", 100 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			b.limit = c.limit
			conv, s := b.open(t, backends.Config{})
			s.answering(func(r modelstub.Request) modelstub.Turn {
				switch {
				case strings.Contains(r.Prompt(), "again"):
					return text("Again.")
				case strings.Contains(lastText(r), "task-notification"):
					return text("I heard that it is over.")
				case r.ToolResult() != "":
					return text("It runs.")
				}
				return start(c.command)
			})
			evs, out, err := run(t, conv, backendtest.Turn{}, backends.Settings{Background: c.policy})
			if err != nil || out.Reason != backends.ReasonEndTurn {
				t.Fatal(out, err)
			}
			if got := texts(evs); !slices.Equal(got, c.said) {
				t.Errorf("said %q", got)
			}
			told := false
			for _, e := range evs {
				st, ok := e.Data.(events.Status)
				told = told || ok && strings.Contains(st.Detail, c.ends)
			}
			if !told {
				t.Errorf("the end of the background work is not told as %s: %+v", c.ends, evs)
			}
			gone(t, c.command)
			evs, _, err = run(t, conv, backendtest.Turn{Prompt: "again"}, backends.Settings{Background: c.policy})
			if err != nil || !slices.Equal(texts(evs), []string{"Again."}) {
				t.Error(texts(evs), err)
			}
			if n := len(s.started()); n != 1 {
				t.Errorf("%d processes", n)
			}
		})
	}
}

func lastText(r modelstub.Request) string {
	m := r.Messages[len(r.Messages)-1]
	var out strings.Builder
	for _, p := range m.Parts {
		out.WriteString(p.Text)
	}
	return out.String()
}

// TestSubagents: what sub-agents say and do is told as theirs, their tools ask
// too, what they use counts; in the foreground unless they are wanted in the
// background, where the run waits for them if it is to.
func TestSubagents(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, c := range []struct {
		name       string
		background bool
		said       []string
	}{
		{"foreground", false, []string{"I delegate.", "Done."}},
		{"background", true, []string{"I delegate.", "It runs.", "It is done."}},
	} {
		t.Run(c.name, func(t *testing.T) {
			conv, s := b.open(t, backends.Config{})
			in := map[string]any{"description": "do a thing", "prompt": "SUBTASK", "subagent_type": "general-purpose"}
			set := backends.Settings{}
			if c.background {
				in["run_in_background"], set.Background = true, backends.BackgroundWait
			}
			released := modelstub.NewGate()
			use := modelstub.Usage{Input: 10, Output: 5}
			s.answering(func(r modelstub.Request) modelstub.Turn {
				below := strings.Contains(r.Prompt(), "SUBTASK")
				switch {
				case below && r.ToolResult() != "":
					return text("It is done below.").Uses(use)
				case below:
					turn := modelstub.Say(modelstub.Thinking("Below I think."), modelstub.Text("I am the other one."), bash("echo below").ID("toolu_below")).Uses(use)
					if c.background {
						turn = turn.Behind(released)
					}
					return turn
				case strings.Contains(lastText(r), "task-notification"):
					return text("It is done.").Uses(use)
				case c.background && r.ToolResult() != "":
					released.Release()
					return text("It runs.").Uses(use)
				case r.ToolResult() != "":
					return text("Done.").Uses(use)
				}
				return modelstub.Say(modelstub.Text("I delegate."), modelstub.Tool("Agent", in).ID("toolu_agent")).Uses(use)
			})
			rec := backendtest.NewRecorder(backendtest.Turn{Host: backendtest.Host{Replies: []backendtest.Reply{
				{Kind: events.KindPermission, Tool: "Agent", Answer: events.Answer{Outcome: events.OutcomeAllowed}},
				{Kind: events.KindPermission, Tool: "Bash", Answer: events.Answer{Outcome: events.OutcomeAllowed}},
			}}}, nil, nil)
			_, err := conv.Run(t.Context(), backends.Input{Parts: []events.Part{events.Text("Go.")}, Set: set}, rec)
			rec.Close()
			if err != nil {
				t.Fatal(err)
			}
			evs := rec.Events()
			if got := texts(evs); !slices.Equal(got, c.said) {
				t.Errorf("said %q", got)
			}
			checkAgent(t, evs)
			u := evs[len(evs)-1].Data.(events.Usage)
			if want := int64(10 * s.sc.Count()); *u.InputTokens != want {
				t.Errorf("used %d, want %d", *u.InputTokens, want)
			}
		})
	}
}

// checkAgent wants one sub-agent, whole.
func checkAgent(t *testing.T, evs []events.Event) {
	t.Helper()
	var got []string
	id := ""
	for _, e := range evs {
		switch d := e.Data.(type) {
		case events.SubagentStart:
			id = d.ID
			got = append(got, "start "+d.ParentID+" "+d.Name+" "+d.Text)
		case events.SubagentDelta:
			if d.ID != id {
				t.Errorf("a delta of %q", d.ID)
			}
			got = append(got, "delta "+d.ParentID+" "+d.Text)
		case events.SubagentComplete:
			if d.ID != id {
				t.Errorf("an end of %q", d.ID)
			}
			got = append(got, "complete "+d.ParentID+" "+d.Result)
		case events.ToolUpdate:
			got = append(got, "update "+d.ParentID+" "+d.Name+" "+string(d.Input))
		case events.ToolComplete:
			if d.ParentID != "" {
				got = append(got, "ended "+d.ParentID+" "+d.Name+" "+d.Result)
			}
		case events.ToolCall:
			got = append(got, "call "+d.Name)
		}
	}
	want := []string{
		"call Agent", "start toolu_agent general-purpose SUBTASK", "delta toolu_agent I am the other one.",
		`update toolu_agent Bash {"command":"echo below","description":"A command"}`, "ended toolu_agent Bash below",
		"delta toolu_agent It is done below.", "complete toolu_agent It is done below.",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
