package simulate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/backends/simulate"
	"innerd/events"
)

type turn = backendtest.Turn

func TestEcho(t *testing.T) {
	c := open(t, nil)
	for in, want := range map[string]string{
		"good  day\nto you":     "good  day\nto you",
		" a\u0085b \U0001f600 ": " a\u0085b \U0001f600 ",
		"is it a question?":     "is it a question?", // nobody is there to be asked
		"":                      "(an empty message)",
	} {
		log, out, err := run(t, c, prompt(in), turn{})
		if diff := cmp.Diff([]string{want}, texts(log)); diff != "" || err != nil || out.Reason != backends.ReasonEndTurn || !out.Stored {
			t.Errorf("%q: %+v, %v, %s", in, out, err, diff)
		}
		if log[0].Type() != events.TypeReasoningDelta || log[len(log)-1].Type() != events.TypeUsage {
			t.Errorf("%q: %s … %s", in, log[0].Type(), log[len(log)-1].Type())
		}
	}
}

func TestEchoAsks(t *testing.T) {
	in := prompt("Which color? ")
	in.Set.Interactive = true
	log, _, err := run(t, open(t, nil), in, turn{Interactive: true, Host: backendtest.Host{Replies: []backendtest.Reply{{
		Kind: events.KindQuestion, Answer: events.Answer{Outcome: events.OutcomeAnswered, Value: json.RawMessage(`"blue"`)},
	}}}})
	if err != nil || log[0].Type() != events.TypeInputRequired {
		t.Fatalf("%v, first %s", err, log[0].Type())
	}
	if got := texts(log); len(got) != 1 || !strings.HasPrefix(got[0], "Which color?") || !strings.Contains(got[0], "blue") {
		t.Errorf("said %q", got)
	}
}

func TestEchoWithSchema(t *testing.T) {
	in := prompt("hello")
	in.Set.Schema = json.RawMessage(`{"type":"object","required":["a","n","b","l","o","e"],"properties":{
		"a":{"type":"string"},"n":{"type":"integer"},"b":{"type":"boolean"},"l":{"type":"array"},"e":{"enum":["x","y"]},
		"o":{"type":"object","properties":{"in":{"type":"string"}}},"not":{"type":"string"}}}`)
	log, out, err := run(t, open(t, nil), in, turn{})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"a":"hello","b":false,"e":"x","l":[],"n":0,"o":{"in":"hello"}}`
	if string(out.Output) != want || texts(log)[0] != want {
		t.Errorf("output %s, text %s", out.Output, texts(log))
	}
}

func TestScriptWithSchema(t *testing.T) {
	c := open(t, nil)
	in := script(`[{"text":"{\"no\":1}"},{"text":"{\"a\":1}"}]`)
	in.Set.Schema = json.RawMessage(`{"type":"object"}`)
	if _, out, err := run(t, c, in, turn{}); err != nil || string(out.Output) != `{"a":1}` {
		t.Errorf("output %s, %v", out.Output, err)
	}
	in = script(`[{"text":"no JSON"}]`)
	in.Set.Schema = json.RawMessage(`{"type":"object"}`)
	if _, out, err := run(t, c, in, turn{}); err != nil || out.Output != nil {
		t.Errorf("output %s, %v", out.Output, err)
	}
}

func TestMaxTurns(t *testing.T) {
	in := script(`[{"text":"one"},{"tool":{"name":"a"}},{"text":"two"},{"tool":{"name":"a"}},{"text":"three"}]`)
	in.Set.MaxTurns = 2
	log, out, err := run(t, open(t, nil), in, turn{})
	if got := texts(log); err != nil || out.Reason != backends.ReasonMaxTurns || !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("%+v, %v, said %q", out, err, got)
	}
}

func TestModelOfAnotherVendor(t *testing.T) {
	in := prompt("hello")
	in.Set.Model = "gpt-5"
	log, _, _ := run(t, open(t, nil), in, turn{})
	status, ok := log[0].Data.(events.Status)
	if !ok || status.State != events.StateNotice || !strings.Contains(status.Detail, "gpt-5") {
		t.Errorf("first is %+v", log[0].Data)
	}
	if u := log[len(log)-1].Data.(events.Usage); u.Model != simulate.DefaultModel || u.Backend != "simulate" {
		t.Errorf("usage %+v", u)
	}
}

func TestUsageAddsUp(t *testing.T) {
	log, _, err := run(t, open(t, nil), script(`[{"usage":{"input_tokens":3,"cost":0.25}},{"text":"a"},{"usage":{"input_tokens":4,"output_tokens":5,"cost":0.5}}]`), turn{})
	if err != nil {
		t.Fatal(err)
	}
	u := log[len(log)-1].Data.(events.Usage)
	if *u.InputTokens != 7 || *u.OutputTokens != 5 || *u.TotalTokens != 12 || *u.Cost != 0.75 || u.ReasoningTokens != nil {
		raw, _ := json.Marshal(u)
		t.Errorf("usage %s", raw)
	}
}

// Waiting is done with timers, so that hours take no time here.
func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, nil)
		start := time.Now()
		_, _, err := run(t, c, script(`[{"sleep_ms":3600000},{"text":"abc","chunk_bytes":1,"delay_ms":1000},{"tool":{"name":"a","ms":500}},{"retry":{"text":"ab","wait_ms":250}}]`), turn{})
		if took := time.Since(start); err != nil || took != time.Hour+2750*time.Millisecond {
			t.Errorf("took %v, %v", took, err)
		}
	})
}

func TestStallEndsWithItsCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, nil)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Hour, backends.ErrStalled)
		defer cancel()
		start := time.Now()
		out, err := c.Run(ctx, script(`[{"text":"so"},{"stall":true}]`), discard{})
		if !errors.Is(err, backends.ErrStalled) || time.Since(start) != time.Hour {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if !out.Stored {
			t.Error("the turn is not stored, though the session has it")
		}
	})
}

func TestCloseBesideRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, nil)
		done := make(chan error)
		go func() {
			_, err := c.Run(t.Context(), script(`[{"stall":true}]`), discard{})
			done <- err
		}()
		synctest.Wait()
		if err := c.Close(t.Context()); err == nil {
			// Close returns when the run is over, which the goroutine then tells.
			wantError(t, <-done, events.ErrBackendCrashed)
		} else {
			t.Fatal(err)
		}
		<-c.Done()
		_, err := c.Run(t.Context(), prompt("more"), discard{})
		wantError(t, err, events.ErrBackendCrashed)
		if err := c.Close(t.Context()); err != nil {
			t.Errorf("second Close: %v", err)
		}
	})
}

func TestCrashByOurselves(t *testing.T) {
	children := backends.NewChildren(backends.ChildrenOptions{})
	defer children.Close(context.WithoutCancel(t.Context()))
	exe := testProgram(t)
	c := open(t, &simulate.Options{Children: children, CrashCommand: []string{exe, crashChild}})
	log, out, err := run(t, c, script(`[{"text":"so far"},{"crash":{"exit_code":7,"stderr":"the last words\n"}},{"text":"no more"}]`), turn{})
	e := wantError(t, err, events.ErrBackendCrashed)
	if e.Exit == nil || e.Exit.Code != 7 || e.Exit.StderrTail != "the last words\n" {
		t.Errorf("exit %+v", e.Exit)
	}
	if got := texts(log); !slices.Equal(got, []string{"so far"}) || out.Stored {
		t.Errorf("said %q, %+v", got, out)
	}
	select {
	case <-c.Done():
	default:
		t.Error("Done is not closed")
	}
}

func TestCrashCommandMissing(t *testing.T) {
	c := open(t, &simulate.Options{CrashCommand: []string{"/nowhere/crash"}})
	_, _, err := run(t, c, script(`[{"crash":{}}]`), turn{})
	wantError(t, err, events.ErrInternal)
}

// Any script of harmless steps keeps the order rules, and the finish reason
// stands on the last message alone.
func TestAnyScriptKeepsOrder(t *testing.T) {
	c := open(t, nil)
	text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z ]{0,40}`), rapid.SampledFrom([]string{"", " ", "\n\n", backendtest.Odd}))
	rapid.Check(t, func(rt *rapid.T) {
		steps, said := drawSteps(rt, text, 2)
		raw, _ := json.Marshal(steps)
		log, _, err := run(t, c, script(string(raw)), turn{})
		if err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(said, texts(log)); diff != "" {
			rt.Fatal(diff)
		}
		checkFinish(rt, log)
	})
}

func checkFinish(rt *rapid.T, log []events.Event) {
	var last *events.Message
	for _, e := range log {
		if m, ok := e.Data.(events.Message); ok {
			if last != nil && last.FinishReason != "" {
				rt.Fatalf("message %q has the finish reason, but is not the last", last.MessageID)
			}
			last = &m
		}
	}
	if last != nil && last.FinishReason != backends.ReasonEndTurn {
		rt.Fatalf("the last message has the finish reason %q", last.FinishReason)
	}
}

// drawSteps makes a script and what it says.
func drawSteps(rt *rapid.T, text *rapid.Generator[string], depth int) (steps []map[string]any, said []string) {
	steps = []map[string]any{}
	say := func(s string) string {
		s = strings.ToValidUTF8(s, "\ufffd")
		if s != "" {
			said = append(said, s)
		}
		return s
	}
	for range rapid.IntRange(0, 5).Draw(rt, "steps") {
		switch rapid.IntRange(0, 3+depth).Draw(rt, "kind") {
		case 0:
			steps = append(steps, map[string]any{"text": say(text.Draw(rt, "text")), "chunk_bytes": rapid.IntRange(1, 9).Draw(rt, "chunk")})
		case 1:
			steps = append(steps, map[string]any{"text": say(text.Draw(rt, "words"))})
		case 2:
			steps = append(steps, map[string]any{"reasoning": strings.ToValidUTF8(text.Draw(rt, "reasoning"), "")})
		case 3:
			steps = append(steps, map[string]any{"tool": map[string]any{"name": "a", "output": "o"}})
		default:
			inner, words := drawSteps(rt, text, depth-1)
			n := rapid.IntRange(0, 3).Draw(rt, "n")
			steps = append(steps, map[string]any{"repeat": n, "steps": inner})
			for range n {
				said = append(said, words...)
			}
		}
	}
	return steps, said
}

// Pieces are never cut inside a rune, and are never longer than asked for
// unless a single rune is.
func TestChunks(t *testing.T) {
	c := open(t, nil)
	rapid.Check(t, func(rt *rapid.T) {
		s := rapid.StringN(1, 200, -1).Draw(rt, "text")
		n := rapid.IntRange(1, 20).Draw(rt, "chunk")
		raw, _ := json.Marshal(s)
		log, _, err := run(t, c, script(fmt.Sprintf(`[{"text":%s,"chunk_bytes":%d}]`, raw, n)), turn{})
		if err != nil || texts(log)[0] != s {
			rt.Fatalf("said %q, %v", texts(log), err)
		}
		for _, e := range log {
			if d, ok := e.Data.(events.MessageDelta); ok {
				if !utf8.ValidString(d.Delta) || (len(d.Delta) > n && utf8.RuneCountInString(d.Delta) > 1) {
					rt.Fatalf("delta %q at %d bytes", d.Delta, n)
				}
			}
		}
	})
}
