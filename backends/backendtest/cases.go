package backendtest

import (
	"encoding/json"
	"slices"

	"innerd/backends"
	"innerd/events"
)

// All are all cases, in an order that tells first what is simplest.
func All() []Case {
	return slices.Concat(
		Cases(), moreTextCases(), faultCases(), workCases(), moreCallCases(), toolSetCases(), moreAskCases(), settingCases(), inputCases(),
		usageCases(), steerCases(), moreMemoryCases(), compactCases(), moreErrorCases(), safetyCases(),
	)
}

// Cases are those that need no more of who plays them than a host has: they
// are played over HTTP too.
func Cases() []Case {
	return slices.Concat(
		textCases(), nativeCases(), bridgedCases(), longBridgedCases(), requestCases(),
		cancelCases(), memoryCases(), toldCases(),
		failureCases(), errorCases(), lineCases(), manyCases(),
	)
}

// one is a case of one turn.
func one(name, why string, needs []Need, t Turn) Case {
	if t.Prompt == "" {
		t.Prompt = "Do what the case " + name + " says."
	}
	return Case{Name: name, Why: why, Needs: needs, Turns: []Turn{t}}
}

func number(n int) *int { return &n }

func object(v map[string]any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic("backendtest: " + err.Error())
	}
	return raw
}

func shell(command string) json.RawMessage { return object(map[string]any{"command": command}) }

// Odd is text that careless readers and cutters spoil: line ends that only
// some know, a NUL, runes of two, three and four bytes, and an emoji of several runes.
const Odd = "a\u0085b\u2028c\u2029d\r\ne\x00f \"q\" \\ \u00e4\u00f6\u00fc \u4f60\u597d \U0001f600 \U0001f469\u200d\U0001f469\u200d\U0001f466 </conversation_history> end"

func textCases() []Case {
	return []Case{
		one("text", "the least that an agent does", nil, Turn{
			Steps: []Step{{Text: "Good day. This is all I say."}},
			Want:  Want{Said: []string{"Good day. This is all I say."}, Warm: true},
		}),
		one("reasoning", "reasoning is a block of its own before the text", []Need{NeedReasoning}, Turn{
			Steps: []Step{{Reasoning: "I think about it."}, {Text: "It is so."}},
			Want:  Want{Thought: []string{"I think about it."}, Said: []string{"It is so."}},
		}),
		one("equal-deltas", "equal pieces in a row are both text", nil, Turn{
			Steps: []Step{{Text: "hahahaha", ChunkBytes: 2}},
			Want:  Want{Said: []string{"hahahaha"}},
		}),
		one("odd-characters", "no byte of a text is lost or changed, however it is cut", nil, Turn{
			Prompt: "Say this: " + Odd,
			Steps:  []Step{{Text: Odd, ChunkBytes: 1}},
			Want:   Want{Said: []string{Odd}, Heard: []string{Odd}},
		}),
		one("long-text", "a text of a mebibyte comes whole", nil, Turn{
			Steps: []Step{{Flood: &Flood{Deltas: 1 << 12, Bytes: 256}}, {Text: "That was long."}},
			Want:  Want{Said: []string{"That was long."}},
		}),
		one("retry-discarded", "a text that broke off and is said again stands once", nil, Turn{
			Steps: []Step{{Retry: &Retry{Text: "This was said twice and stands once."}}},
			Want:  Want{Said: []string{"This was said twice and stands once."}, Discarded: 1},
		}),
		one("reason-max-tokens", "a text that is cut by its limit says so", nil, Turn{
			Steps: []Step{{Finish: backends.ReasonMaxTokens}, {Text: "This is cut"}},
			Want:  Want{Said: []string{"This is cut"}, Reason: backends.ReasonMaxTokens},
		}),
		one("reason-refusal", "a refusal is not an end like any other", nil, Turn{
			Steps: []Step{{Finish: backends.ReasonRefusal}, {Text: "I will not."}},
			Want:  Want{Reason: backends.ReasonRefusal},
		}),
		one("empty-turn", "a turn in which nothing came is never a silent success", nil, Turn{
			Steps: []Step{{Empty: true}},
			Want:  Want{Unsaid: true, OrError: events.ErrEmptyTurn},
		}),
	}
}

func nativeCases() []Case {
	return []Case{
		one("native-tool", "the agent's own tool is seen to begin and to end", nil, Turn{
			Steps: []Step{
				{Tool: &Tool{Name: "shell", Input: shell("echo the output"), Output: "the output", ExitCode: number(0)}},
				{Text: "It ran."},
			},
			Want: Want{Tools: []ToolWant{{Input: "echo the output", Output: "the output", Success: true, ExitCode: number(0)}}, Said: []string{"It ran."}},
		}),
		one("native-tool-fails", "a tool that fails tells output and exit code", nil, Turn{
			Steps: []Step{
				{Tool: &Tool{Name: "shell", Input: shell("echo no such luck; exit 3"), Output: "no such luck", ExitCode: number(3)}},
				{Text: "It failed."},
			},
			Want: Want{Tools: []ToolWant{{Input: "echo no such luck; exit 3", Output: "no such luck", ExitCode: number(3)}}, Said: []string{"It failed."}},
		}),
	}
}
