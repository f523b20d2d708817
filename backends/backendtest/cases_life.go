package backendtest

import (
	"time"

	"innerd/events"
)

// again is the turn after one that was cut: the conversation must work.
func again(heard ...string) Turn {
	return Turn{
		Prompt: "Go on.",
		Steps:  []Step{{Text: "I go on."}},
		Want:   Want{Said: []string{"I go on."}, Heard: heard},
	}
}

// canceled is a case whose first turn is canceled and whose second works.
func canceled(name, why string, needs []Need, steps []Step, c Cancel, w Want) Case {
	return Case{Name: name, Why: why, Needs: needs, Turns: []Turn{
		{Prompt: "Begin " + name + ".", Steps: steps, Host: Host{Cancel: c}, Want: w},
		again(),
	}}
}

func cancelCases() []Case {
	minute := int(time.Minute.Milliseconds())
	return []Case{
		canceled("cancel-in-text", "a cancel ends a message in the middle", nil,
			[]Step{{Text: "one two three four five six", ChunkBytes: 4, DelayMS: minute}},
			Cancel{On: events.TypeMessageDelta}, Want{}),
		canceled("cancel-in-bridged-call", "a cancel ends a call of a host's tool, and the request is resolved", tools(),
			[]Step{{Call: &Call{Tool: "lookup"}}, {Text: "never said"}},
			Cancel{On: events.TypeToolRequest},
			Want{Requests: []RequestWant{{Kind: events.KindTool, Tool: "lookup", Outcome: events.OutcomeCanceled}}}),
		canceled("cancel-in-native-tool", "a cancel ends the agent's own tool, and what it runs", nil,
			// No sleep: that one of the agents refuses to run.
			[]Step{{Tool: &Tool{Name: "shell", Input: shell(`echo > began; tail -f "$PWD/began"`), MS: minute}}, {Text: "never said"}},
			Cancel{On: events.TypeToolCall, Began: "began"},
			Want{NoTool: true, Tools: []ToolWant{{Open: true}}, Dead: []string{"tail -f {dir}/began"}}),
		canceled("cancel-in-permission", "a cancel ends the wait for a permission", []Need{NeedPermissions},
			[]Step{{Permission: &Permission{Tool: "shell", Input: shell("echo never")}}},
			Cancel{On: events.TypePermissionRequest},
			Want{NoTool: true, Requests: []RequestWant{{Kind: events.KindPermission, Outcome: events.OutcomeCanceled}}}),
		canceled("cancel-before-first-byte", "a cancel ends a turn whose model has not answered", nil,
			[]Step{{Stall: true}}, Cancel{Early: true}, Want{Unsaid: true}),
	}
}

func memoryCases() []Case {
	first := Turn{
		Prompt: "Remember the word quincunx.",
		Steps:  []Step{{Text: "The word is kept."}},
		Want:   Want{Said: []string{"The word is kept."}, HeardOnce: []string{"quincunx"}},
	}
	resumed := func(name, why string, b Before, needs ...Need) Case {
		t := again("quincunx", "The word is kept.")
		t.Before = b
		return Case{Name: name, Why: why, Needs: append(needs, NeedResume), Turns: []Turn{first, t}}
	}
	warm := again("quincunx", "The word is kept.")
	warm.Want.Warm = true
	crash := Turn{Prompt: "Now die.", Steps: []Step{{Crash: &Crash{ExitCode: 1}}}, Want: Want{Error: events.ErrBackendCrashed, Exit: true, Gone: true}}
	return []Case{
		{Name: "second-turn", Why: "the second turn is in the same process and remembers the first", Turns: []Turn{first, warm}},
		resumed("resume-after-close", "a conversation that was put away goes on", BeforeClose),
		resumed("resume-after-restart", "a conversation outlives the server", BeforeRestart),
		resumed("resume-after-kill", "a conversation outlives its process", BeforeKill, NeedProcess),
		{Name: "resume-after-crash", Why: "a conversation outlives a crash in a turn", Needs: []Need{NeedResume}, Turns: []Turn{first, crash, again("quincunx")}},
		usageCase(),
	}
}

func tokens(in, out int64) *events.Usage { return &events.Usage{InputTokens: &in, OutputTokens: &out} }

// usageCase has two turns: agents that count on must be subtracted.
func usageCase() Case {
	turn := func(word string, u *events.Usage) Turn {
		return Turn{
			Prompt: "Count " + word + ".",
			Steps:  []Step{{Usage: u}, {Text: word + "."}},
			Want:   Want{Said: []string{word + "."}, Usage: u},
		}
	}
	return Case{
		Name: "usage-of-this-run", Why: "a run's usage is its own, not the conversation's",
		Turns: []Turn{turn("one", tokens(100, 10)), turn("two", tokens(7, 3)), turn("three", tokens(7, 3))},
	}
}

func toldCases() []Case {
	history := "<conversation_history>\nuser: the marker is zymurgy\n</conversation_history>"
	second := again("second-system-marker")
	second.System = "second-system-marker: be long."
	second.Want.Unheard = []string{"first-system-marker"}
	return []Case{
		{
			Name: "history-told-once", Why: "what the agent is told of the past, it is told once",
			Turns: []Turn{{
				Prompt: "Go on from there.", History: history, Steps: []Step{{Text: "From there."}},
				Want: Want{Said: []string{"From there."}, HeardOnce: []string{"zymurgy", "Go on from there."}},
			}, {
				Prompt: "And on.", Steps: []Step{{Text: "And on it goes."}},
				Want: Want{HeardOnce: []string{"zymurgy", "Go on from there.", "And on."}},
			}},
		},
		{
			Name: "system-text", Why: "the host's system text reaches the agent, and a new one takes its place",
			Turns: []Turn{{
				Prompt: "Begin.", System: "first-system-marker: be brief.", Steps: []Step{{Text: "Brief."}},
				Want: Want{HeardOnce: []string{"first-system-marker"}},
			}, second},
		},
		one("prompt-with-image", "an image of the user's reaches the model", []Need{NeedImages}, Turn{
			Prompt: "What is this?", Attach: []events.Part{imagePart()}, Steps: []Step{{Text: "A pixel."}},
			Want: Want{Heard: []string{Image}, Said: []string{"A pixel."}},
		}),
		one("slash-and-at", "a prompt is text, never a command of the agent's own terminal", nil, Turn{
			Prompt: "/clear @/etc/hostname !id #note", Steps: []Step{{Text: "As you say."}},
			Want: Want{Heard: []string{"/clear @/etc/hostname !id #note"}, Said: []string{"As you say."}},
		}),
	}
}

func failureCases() []Case {
	return []Case{
		one("crash", "the death of the agent's process is told at once, with how it ended", nil, Turn{
			Steps: []Step{{Text: "Here I am."}, {Crash: &Crash{ExitCode: 3, Stderr: "out of luck"}}},
			Want:  Want{Error: events.ErrBackendCrashed, Exit: true, Gone: true},
		}),
		{Name: "error-then-works", Why: "a failure of the model does not end the conversation", Turns: []Turn{{
			Prompt: "Fail once.", Steps: []Step{{Error: &Error{Type: events.ErrOverloaded, Message: "come back later"}}},
			Want: Want{Error: events.ErrOverloaded, Unsaid: true},
		}, again()}},
	}
}

// faultCases need a host that is the suite's own: over HTTP nobody can make one fail.
func faultCases() []Case {
	return []Case{
		{Name: "fault-of-innerd", Why: "a fault of innerd's own ends one run, and neither its conversation nor the server", Needs: tools(), Turns: []Turn{{
			Prompt: "Call it.", Steps: []Step{{Call: &Call{Tool: "lookup"}}, {Text: "Nobody hears this."}},
			Host: Host{Panics: true}, Want: Want{Error: events.ErrInternal},
		}, again()}},
	}
}

// errorCases are the classes of failures that hosts decide by.
func errorCases() []Case {
	var out []Case
	for _, class := range []string{
		events.ErrAuth, events.ErrRateLimit, events.ErrQuota, events.ErrOverloaded, events.ErrInvalidRequest,
		events.ErrContextLength, events.ErrModelUnavailable, events.ErrInternal,
	} {
		out = append(out, one("error-"+class, "hosts decide by the class of a failure", nil, Turn{
			Steps: []Step{{Error: &Error{Type: class, Message: "the model says " + class}}},
			Want:  Want{Error: class, Unsaid: true, MaxAsks: asks},
		}))
	}
	return out
}

// lineCases are for agents that speak in lines: around the noise they say two
// texts, and both must come.
func lineCases() []Case {
	noisy := func(name, why string, n Noise) Case {
		return one(name, why, []Need{NeedProcess, NeedLines}, Turn{
			Steps: []Step{{Text: "before"}, {Noise: n}, {Text: "after"}},
			Want:  Want{Said: []string{"before", "after"}, Warm: true},
		})
	}
	deaf := one("deaf-agent", "an agent that does not read while it writes is read from all the same", []Need{NeedProcess, NeedLines, NeedTools}, Turn{
		Steps: []Step{{Noise: NoiseDeaf}, {Call: &Call{Tool: "lookup"}}, {Text: "after"}},
		Host:  Host{Replies: []Reply{reply("lookup", ok(string(make([]byte, 1<<20))))}},
		Want:  Want{Said: []string{"after"}},
	})
	return []Case{
		noisy("line-64-mib", "a line without an end does not hang the agent", NoiseHugeLine),
		noisy("line-not-json", "lines that mean nothing are survived", NoiseNotJSON),
		noisy("line-unknown-event", "events of a later version are survived", NoiseUnknownEvent),
		deaf,
	}
}
