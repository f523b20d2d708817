package backendtest

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"innerd/backends"
	"innerd/events"
)

func tools() []Need { return []Need{NeedTools} }

func ok(result string) events.Answer {
	return events.Answer{Outcome: events.OutcomeOK, Result: result}
}

func reply(tool string, a events.Answer) Reply {
	return Reply{Kind: events.KindTool, Tool: tool, Answer: a}
}

// bridged is a case of one call with one answer.
func bridged(name, why string, r Reply, w Want) Case {
	outcome := r.Answer.Outcome
	w.Requests = []RequestWant{{Kind: events.KindTool, Tool: "lookup", Input: `{"key":"` + name + `","n":1}`, Outcome: outcome}}
	w.Said = append(w.Said, "That was the call.")
	r.Kind, r.Tool = events.KindTool, "lookup"
	return one(name, why, tools(), Turn{
		Steps: []Step{
			{Call: &Call{Tool: "lookup", Arguments: object(map[string]any{"key": name, "n": 1})}},
			{Text: "That was the call."},
		},
		Host: Host{Replies: []Reply{r}}, Want: w,
	})
}

// Image is a small PNG, in base64: one pixel.
var Image = base64.StdEncoding.EncodeToString([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89" +
	"\x00\x00\x00\rIDATx\x9cc\xf8\xcf\xc0\xf0\x1f\x00\x05\x00\x01\xff\x89\x99=\x1d\x00\x00\x00\x00IEND\xaeB`\x82"))

func imagePart() events.Part {
	return events.Part{Type: events.PartImage, MimeType: "image/png", Data: Image}
}

func bridgedCases() []Case {
	big := "BEGIN-OF-THE-RESULT " + strings.Repeat("0123456789abcdef", 1<<16)
	return []Case{
		bridged("call-text", "a tool of the host is called and its result reaches the model",
			Reply{Answer: ok("the result of the host")}, Want{Heard: []string{"the result of the host"}}),
		bridged("call-odd-characters", "no byte of a result is changed",
			Reply{Answer: ok(Odd)}, Want{Heard: []string{Odd}}),
		bridged("call-empty", "an empty result is a result",
			Reply{Answer: ok("")}, Want{}),
		bridged("call-error", "an error of a tool goes to the model and does not end the turn",
			Reply{Answer: events.Answer{Outcome: events.OutcomeError, IsError: true, Result: "the host says no"}},
			Want{Heard: []string{"the host says no"}}),
		withNeeds(bridged("call-image", "an image as a result is seen by the model",
			Reply{Answer: events.Answer{Outcome: events.OutcomeOK, Content: []events.Part{events.Text("an image:"), imagePart()}}},
			Want{Heard: []string{"an image:", Image}}), NeedImages),
		bridged("call-1-mib", "a result of a mebibyte does no harm, whatever of it the agent lets its model read",
			Reply{Answer: ok(big)}, Want{}),
		bridged("call-2-s", "a tool may take its time",
			Reply{Answer: ok("after two seconds"), After: 2 * time.Second}, Want{Heard: []string{"after two seconds"}}),
		parallelCase(),
		manyInARow(),
	}
}

func withNeeds(c Case, needs ...Need) Case {
	c.Needs = append(c.Needs, needs...)
	return c
}

// parallelCase answers none before all are open.
func parallelCase() Case {
	const n = 8
	t := Turn{Want: Want{Together: n, Said: []string{"All are there."}}}
	var calls []Call
	for i := range n {
		tool := fmt.Sprintf("worker_%d", i)
		calls = append(calls, Call{Tool: tool, Arguments: object(map[string]any{"i": i})})
		r := reply(tool, ok(fmt.Sprintf("result-of-worker-%d", i)))
		r.Together = n
		r.After = time.Duration(n-i) * 10 * time.Millisecond // the last call's result comes first
		t.Host.Replies = append(t.Host.Replies, r)
		t.Want.Requests = append(t.Want.Requests, RequestWant{Kind: events.KindTool, Tool: tool, Input: fmt.Sprintf(`{"i":%d}`, i), Outcome: events.OutcomeOK})
		t.Want.Heard = append(t.Want.Heard, fmt.Sprintf("result-of-worker-%d", i))
	}
	t.Steps = []Step{{Calls: calls}, {Text: "All are there."}}
	return one("calls-8-parallel", "calls that the model makes at once are all open at once", tools(), t)
}

// manyInARow has the agent go round its loop.
func manyInARow() Case {
	t := Turn{Want: Want{Said: []string{"Round 0.", "Round 1.", "Round 2.", "Done."}}}
	for i := range 3 {
		t.Steps = append(t.Steps,
			Step{Text: fmt.Sprintf("Round %d.", i)},
			Step{Call: &Call{Tool: "lookup", Arguments: object(map[string]any{"round": i})}})
		t.Host.Replies = append(t.Host.Replies, reply("lookup", ok(fmt.Sprintf("round-%d-result", i))))
		t.Want.Requests = append(t.Want.Requests, RequestWant{Kind: events.KindTool, Tool: "lookup", Input: fmt.Sprintf(`{"round":%d}`, i)})
		t.Want.Heard = append(t.Want.Heard, fmt.Sprintf("round-%d-result", i))
	}
	t.Steps = append(t.Steps, Step{Text: "Done."})
	return one("calls-in-a-row", "text and calls take turns, and every message stands", tools(), t)
}

func longBridgedCases() []Case {
	c := bridged("call-90-s", "no time-out of the agent's own ends a tool of the host",
		Reply{Answer: ok("after ninety seconds"), After: 90 * time.Second}, Want{Heard: []string{"after ninety seconds"}})
	c.Long, c.Waits = true, true
	return []Case{c}
}

func requestCases() []Case {
	touch := &Permission{Tool: "shell", Input: shell("echo it was allowed"), Output: "it was allowed"}
	asked := []RequestWant{{Kind: events.KindPermission}}
	ask := Step{Ask: &Ask{Message: "Which color?"}}
	return []Case{
		one("permission-allowed", "what the host allows runs", []Need{NeedPermissions}, Turn{
			Permission: backends.PermissionAsk,
			Steps:      []Step{{Permission: touch}, {Text: "It ran."}},
			Host: Host{Replies: []Reply{{
				Kind: events.KindPermission, After: 50 * time.Millisecond,
				Answer: events.Answer{Outcome: events.OutcomeAllowed, By: "host"},
			}}},
			Want: Want{Requests: asked, Tools: []ToolWant{{Output: "it was allowed", Success: true}}, Said: []string{"It ran."}},
		}),
		one("permission-denied", "what the host denies does not run, and the model reads why", []Need{NeedPermissions}, Turn{
			Permission: backends.PermissionAsk,
			Steps:      []Step{{Permission: touch}, {Text: "It did not run."}},
			Host: Host{Replies: []Reply{{
				Kind:   events.KindPermission,
				Answer: events.Answer{Outcome: events.OutcomeDenied, By: "host", Message: "not on a sunday"},
			}}},
			Want: Want{Requests: asked, NoTool: true, Heard: []string{"not on a sunday"}, Said: []string{"It did not run."}},
		}),
		one("question", "the user's answer reaches the model", []Need{NeedQuestions}, Turn{
			Interactive: true,
			Steps:       []Step{ask, {Text: "I see."}},
			Host: Host{Replies: []Reply{{
				Kind:   events.KindQuestion,
				Answer: events.Answer{Outcome: events.OutcomeAnswered, Value: []byte(`"ultramarine"`)},
			}}},
			Want: Want{Requests: []RequestWant{{Kind: events.KindQuestion, Outcome: events.OutcomeAnswered}}, Heard: []string{"ultramarine"}, Said: []string{"I see."}},
		}),
		one("question-refused", "without a user nothing is asked, and the turn goes on", []Need{NeedQuestions}, Turn{
			Steps: []Step{ask, {Text: "I decided myself."}},
			Want:  Want{Requests: []RequestWant{}, Said: []string{"I decided myself."}},
		}),
	}
}

// manyCases are those with two conversations, or with much at once.
func manyCases() []Case {
	big := string(bytes.Repeat([]byte("x"), 1<<20))
	flood := one("big-results-and-output", "results that are written while output flows do not lock the agent up", tools(), Turn{
		Steps: []Step{
			{Calls: []Call{{Tool: "big_a"}, {Tool: "big_b"}, {Tool: "big_c"}, {Tool: "big_d"}}},
			{Flood: &Flood{Deltas: 15_000, Bytes: 40}},
			{Text: "Through."},
		},
		Host: Host{Replies: []Reply{reply("big_a", ok(big)), reply("big_b", ok(big)), reply("big_c", ok(big)), reply("big_d", ok(big))}},
		Want: Want{Said: []string{"Through."}},
	})
	return []Case{flood, {
		Name:   "two-conversations",
		Why:    "calls with equal ids of two conversations are never mixed up",
		Needs:  tools(),
		Turns:  twin("alpha", "beta"),
		Beside: twin("beta", "alpha"),
	}}
}

// twin is one side of two conversations that make the same calls at the same
// time and get other answers.
func twin(own, other string) []Turn {
	var turns []Turn
	for i := range 3 {
		result := fmt.Sprintf("for-%s-%d", own, i)
		turns = append(turns, Turn{
			Prompt: "This is " + own + ".",
			Steps:  []Step{{Call: &Call{Tool: "shared", Arguments: object(map[string]any{"i": i})}}, {Text: own + " has it."}},
			Host:   Host{Replies: []Reply{{Kind: events.KindTool, Tool: "shared", Answer: ok(result), After: 30 * time.Millisecond}}},
			Want: Want{
				Said: []string{own + " has it."}, Heard: []string{result}, Unheard: []string{"for-" + other},
				Requests: []RequestWant{{Kind: events.KindTool, Tool: "shared", Input: fmt.Sprintf(`{"i":%d}`, i), Outcome: events.OutcomeOK}},
			},
		})
	}
	return turns
}
