package backendtest_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/backends/simulate"
	"innerd/events"
)

// told changes what the agent is told for a turn.
func told(change func(*backends.Input)) mutant {
	return mutant{run: func(ctx context.Context, in backends.Input, h backends.Host, c backends.Conversation) (backends.Outcome, error) {
		change(&in)
		return c.Run(ctx, in, h)
	}}
}

// ended changes how a turn ended.
func ended(change func(*backends.Outcome, *error)) mutant {
	return mutant{run: func(ctx context.Context, in backends.Input, h backends.Host, c backends.Conversation) (backends.Outcome, error) {
		out, err := c.Run(ctx, in, h)
		change(&out, &err)
		return out, err
	}}
}

// inDir does something in the conversation's directory with each turn.
func inDir(do func(dir string, in *backends.Input)) mutant {
	var dir string
	m := told(func(in *backends.Input) { do(dir, in) })
	m.open = func(ctx context.Context, b *simulate.Backend, cfg backends.Config) (backends.Conversation, error) {
		dir = cfg.Dir
		return b.Open(ctx, cfg)
	}
	return m
}

// askingHost changes what is asked, and what is answered.
type askingHost struct {
	backends.Host
	ask    func(*events.Request)
	answer func(*events.Answer)
}

func (h askingHost) Request(ctx context.Context, r events.Request) backends.Pending {
	if h.ask != nil {
		h.ask(&r)
	}
	return changedAnswer{h.Host.Request(ctx, r), h.answer}
}

type changedAnswer struct {
	backends.Pending
	change func(*events.Answer)
}

func (p changedAnswer) Wait() (events.Answer, error) {
	a, err := p.Pending.Wait()
	if p.change != nil {
		p.change(&a)
	}
	return a, err
}

func asks(ask func(*events.Request), answer func(*events.Answer)) mutant {
	return mutant{host: func(h backends.Host) backends.Host { return askingHost{h, ask, answer} }}
}

// usage changes what is counted.
func usage(change func(*events.Usage)) mutant {
	return emits(func(h backends.Host, e events.Event) {
		if u, ok := e.Data.(events.Usage); ok {
			change(&u)
			e.Data = u
		}
		h.Emit(e)
	})
}

// deafHost answers permissions itself, so that nobody is asked.
type deafHost struct{ backends.Host }

func (h deafHost) Request(context.Context, events.Request) backends.Pending { return allowed{} }

type allowed struct{}

func (allowed) Wait() (events.Answer, error) {
	return events.Answer{Outcome: events.OutcomeAllowed, By: "policy"}, nil
}

func allow(a *events.Answer)    { a.Outcome = events.OutcomeAllowed }
func tacit(a *events.Answer)    { a.Message = "" }
func nothing() error            { return nil }
func detach(in *backends.Input) { in.Parts = in.Parts[:1] }

func plain(*backends.Outcome, *error) {}

// moreMutants are faults for the cases that All has beside Cases.
func moreMutants(t *testing.T) []mutantTest {
	n := 0
	differs := func(r *events.Request) { n++; r.Input = []byte(`{"command":"` + string(rune('a'+n)) + `"}`) }
	return slices.Concat(workMutants(t), settingMutants(), detailMutants(), []mutantTest{
		{"half of the reasoning stands", "message-equals-deltas", emits(once(events.TypeReasoningDelta)), "the blocks of reasoning are"},
		{"a message that is not its deltas", "message-equals-deltas", emits(func(h backends.Host, e events.Event) {
			if m, ok := e.Data.(events.Message); ok {
				m.Content = "something else"
				e.Data = m
			}
			h.Emit(e)
		}), "is not the sum of its deltas"},
		{"reasoning is not taken back", "retry-discards-reasoning", emits(without(events.TypeDiscarded)), "while"},
		{"a fault that nobody hears of", "fault-of-innerd", mutant{run: func(ctx context.Context, in backends.Input, h backends.Host, c backends.Conversation) (backends.Outcome, error) {
			defer func() { _ = recover() }()
			return c.Run(ctx, in, h)
		}}, `want "internal"`},
		{"tools pile up", "tools-changed", told(pile()), "was offered the host's alpha"},
		{"another name", "clashing-name", asks(func(r *events.Request) { r.Tool = "host_" + r.Tool }, nil), "did not return"},
		{"nobody is asked", "permission-every-native-tool", mutant{host: func(h backends.Host) backends.Host { return deafHost{h} }}, "no permission was asked for"},
		{"denied and done", "permission-every-native-tool", asks(nil, allow), "1 tools succeeded"},
		{"no reason for a deny", "permission-denied-message", asks(nil, tacit), "was not told"},
		{"silence is consent", "permission-expired", asks(nil, allow), "1 tools succeeded"},
		{"the same asked otherwise", "permission-asked-the-same", asks(differs, nil), "was asked for as"},
		{"steered into nothing", "steer-in-text", mutant{steer: nothing}, "0 times, want once"},
		{"steered into nothing", "steer-in-native-tool", mutant{steer: nothing}, "0 times, want once"},
		{"never too late", "steer-in-text", mutant{steer: nothing}, "want ErrTooLate"},
		{"a copy without a memory", "resume-from-copy", mutant{open: func(ctx context.Context, b *simulate.Backend, cfg backends.Config) (backends.Conversation, error) {
			cfg.Session = backends.Session{}
			return b.Open(ctx, cfg)
		}}, "was not told"},
		{"compaction that does nothing", "compact-on-request", mutant{compact: nothing}, `was told "syzygy"`},
		{"compaction that is not shown", "compact-by-itself", emits(without(events.TypeStatus)), `no session.status "compacting"`},
		{"the time is lost", "error-rate-limit-time", ended(func(_ *backends.Outcome, err *error) {
			*err = &backends.Error{Type: events.ErrRateLimit}
		}), "want 2m0s"},
		{"a stall that is a success", "no-first-byte", ended(func(out *backends.Outcome, err *error) { out.Reason, *err = backends.ReasonEndTurn, nil }), "was canceled, but ended otherwise"},
		{"a refused connection of another class", "error-refused", ended(func(_ *backends.Outcome, err *error) { *err = &backends.Error{Type: events.ErrTimeout} }), `want "overloaded"`},
		{"half an answer stands", "error-cut-stream", emits(without(events.TypeDiscarded)), "wanted nothing"},
		{"no word of the login", "no-login", ended(plain), "without a login, Probe says"},
		{"a hook runs", "hostile-repository", inDir(func(dir string, _ *backends.Input) {
			if err := os.WriteFile(filepath.Join(dir, "hook-ran"), nil, 0o600); err != nil {
				t.Error(err)
			}
		}), "there is a file hook-ran"},
		{"the agent reads the project itself", "project-files-unread", inDir(func(dir string, in *backends.Input) {
			raw, err := os.ReadFile(filepath.Join(dir, "AGENTS.md"))
			if err != nil {
				t.Error(err)
			}
			in.Set.System += string(raw)
		}), `was told "bathysphere"`},
	})
}

// workMutants are faults in what an agent does beside talking.
func workMutants(t *testing.T) []mutantTest {
	changed := func(change func(*events.FileChange)) mutant {
		return emits(func(h backends.Host, e events.Event) {
			if d, ok := e.Data.(events.FileChange); ok {
				change(&d)
				e.Data = d
			}
			h.Emit(e)
		})
	}
	lost := inDir(func(dir string, _ *backends.Input) { // it is written where nobody looks
		if err := os.Remove(filepath.Join(dir, "poem.txt")); err != nil {
			t.Error(err)
		}
	})
	return []mutantTest{
		{"a file in silence", "file-create", emits(without(events.TypeFileChange)), "0 changes of files"},
		{"no diff", "file-create", changed(func(d *events.FileChange) { d.Diff = "" }), "the diff has no line"},
		{"half a diff", "file-edit", changed(func(d *events.FileChange) { d.Diff = "+zwei\n-two" }), "no unified one"},
		{"nothing changed", "file-edit", lost, "no such file"},
		{"a delete that is an edit", "file-delete", changed(func(d *events.FileChange) { d.Kind = "edit" }), "want delete of"},
		{"the old path", "file-move", changed(func(d *events.FileChange) { d.Path = "poem.txt" }), "want move of"},
		{"a helper without an end", "subagent", emits(without(events.TypeSubagentComplete)), "has no end"},
		{"a helper's tools in secret", "subagent", emits(func(h backends.Host, e events.Event) {
			if d, ok := e.Data.(events.ToolComplete); !ok || d.ParentID == "" {
				h.Emit(e)
			}
		}), "no tool with its call"},
		{"a helper that speaks as the agent", "subagent", emits(func(h backends.Host, e events.Event) {
			h.Emit(e)
			if d, ok := e.Data.(events.SubagentDelta); ok {
				h.Emit(events.Event{Data: events.Message{MessageID: "x", Content: d.Text}})
			}
		}), "spoke as the main agent"},
		{"a command runs on", "background-ended", inDir(func(dir string, _ *backends.Input) {
			cmd := exec.Command("sh", "-c", "sleep 61; echo "+dir)
			if err := cmd.Start(); err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		}), "still runs"},
		{"nobody waits", "background-waited", told(func(in *backends.Input) { in.Set.Background = "" }), "no message"},
	}
}

// settingMutants are faults in what a host may choose.
func settingMutants() []mutantTest {
	return []mutantTest{
		{"always the same model", "model-chosen", told(func(in *backends.Input) { in.Set.Model = "simulate-1" }), `want "simulate-2"`},
		{"always the same effort", "effort", told(func(in *backends.Input) { in.Set.Effort = "low" }), `want "high"`},
		{"no output", "structured-output", ended(func(out *backends.Outcome, _ *error) { out.Output = nil }), "the output is"},
		{"round and round", "max-turns", told(func(in *backends.Input) { in.Set.MaxTurns = 0 }), `"Three." was said`},
		{"all tools", "tool-choice-one", told(func(in *backends.Input) { in.Set.ToolChoice = nil }), "was offered the host's other"},
		{"money is no object", "max-cost", told(func(in *backends.Input) { in.Set.MaxCost = 0 }), `"That was too much." was said`},
		{"no file", "prompt-with-file", told(detach), "neither"},
		{"no audio", "prompt-with-audio", told(detach), "neither"},
		{"no video", "prompt-with-video", told(detach), "neither"},
		{"cached tokens twice", "usage-cached", usage(func(u *events.Usage) { *u.InputTokens += *u.CacheReadTokens }), "usage: input_tokens"},
		{"a total that is no sum", "usage-cached", usage(func(u *events.Usage) { *u.TotalTokens++ }), "the total is"},
		{"tokens of reasoning twice", "usage-reasoning", usage(func(u *events.Usage) { *u.OutputTokens += *u.ReasoningTokens }), "usage: output_tokens"},
		{"only the last model turn", "usage-of-model-turns", usage(func(u *events.Usage) { *u.InputTokens = 30 }), "usage: input_tokens"},
		{"free of charge", "usage-cost", usage(func(u *events.Usage) { u.Cost = nil }), "there is no cost"},
		{"no premium requests", "usage-premium", usage(func(u *events.Usage) { u.PremiumRequests = nil }), "there is no premium_requests"},
		{"no time", "usage-times", usage(func(u *events.Usage) { u.TTFTMS = nil }), "there is no ttft_ms"},
	}
}

// once drops all events of a type but the first.
func once(only events.Type) func(backends.Host, events.Event) {
	seen := false
	return func(h backends.Host, e events.Event) {
		if e.Type() == only && seen {
			return
		}
		seen = seen || e.Type() == only
		h.Emit(e)
	}
}

// pile offers the tools of all turns so far.
func pile() func(*backends.Input) {
	var all []backends.Tool
	return func(in *backends.Input) {
		all = append(all, in.Set.Tools...)
		in.Set.Tools = slices.Clone(all)
	}
}

// Each of the cases that only this suite plays has a fault that it finds.
func TestEveryCaseHasAMutant(t *testing.T) {
	found := map[string]bool{
		"call-12-min": true, // as call-90-s, and as call-2-s, which is played by none but the real ones
	}
	for _, m := range moreMutants(t) {
		found[m.in] = true
	}
	played := map[string]bool{}
	for _, c := range backendtest.Cases() {
		played[c.Name] = true
	}
	for _, c := range append(backendtest.All(), backendtest.NativesOf(backendtest.Rig{})...) {
		if !played[c.Name] && !found[c.Name] {
			t.Errorf("no mutant shows that the case %s can fail", c.Name)
		}
	}
}

// Each case is in one row of the table, and no row has a case that is none.
func TestEveryCaseHasARow(t *testing.T) {
	in := map[string]int{}
	for _, r := range backendtest.Rows() {
		for _, name := range r.Cases {
			in[name]++
		}
	}
	for _, c := range append(backendtest.All(), backendtest.NativesOf(backendtest.Rig{})...) {
		if in[c.Name] != 1 {
			t.Errorf("the case %s is in %d rows", c.Name, in[c.Name])
		}
		delete(in, c.Name)
	}
	for name := range in {
		t.Errorf("a row names %s, which is no case", name)
	}
}

// A model that is asked again and again is no bounded failure.
func TestAsksAreBounded(t *testing.T) {
	n := 9
	r := backendtest.Result{ErrorType: events.ErrAuth, Asks: &n, RetryAfter: time.Second, HeardNone: true}
	faults := backendtest.Want{Error: events.ErrAuth, MaxAsks: 8}.Check(r, false)
	if len(faults) != 1 || faults[0] != "the model was asked 9 times, want at most 8" {
		t.Errorf("faults: %q", faults)
	}
}
