package backendtest

import (
	"encoding/base64"
	"time"

	"innerd/backends"
	"innerd/events"
)

// workCases are what an agent does beside talking: files, other agents, work
// in the background.
func workCases() []Case {
	return append(fileCases(), subagentCase(),
		needing(one("background-ended", "what still runs when the turn is over does not run on unseen", nil, Turn{
			Set:   backends.Settings{Background: backends.BackgroundEnd},
			Steps: []Step{{Background: &Background{Command: "sleep 61; echo {dir}", MS: 61_000}}, {Text: "It runs."}},
			Want:  Want{Said: []string{"It runs."}, Dead: []string{"echo {dir}"}},
		}), NeedBackground),
		needing(one("background-waited", "what runs in the background is part of the turn, if the host says so", nil, Turn{
			Set: backends.Settings{Background: backends.BackgroundWait},
			Steps: []Step{
				{Background: &Background{Command: "sleep 1; echo done in the background > {dir}/done", MS: 1000}},
				{Text: "It runs."},
				{Background: &Background{Done: true}},
				{Text: "It is done."},
			},
			Want: Want{Said: []string{"It runs.", "It is done."}},
		}), NeedBackground),
	)
}

func needing(c Case, needs ...Need) Case {
	c.Needs = append(c.Needs, needs...)
	return c
}

func text(s string) *string { return &s }

func fileCases() []Case {
	file := func(name, why string, files map[string]string, ch Change, w Want) Case {
		w.Said = []string{"The file is as it should be."}
		return one(name, why, []Need{NeedFiles}, Turn{
			Files: files, Steps: []Step{{Change: &ch}, {Text: "The file is as it should be."}}, Want: w,
		})
	}
	const poem = "one\ntwo\nthree\n"
	three := map[string]string{"poem.txt": poem}
	beside := file("add-dirs", "an agent works in each directory that the host gives it", map[string]string{"{added}/poem.txt": poem},
		Change{Kind: "edit", Path: "{added}/poem.txt", Old: "two", New: "zwei"},
		Want{
			Changes: []ChangeWant{{Path: "{added}/poem.txt", Kind: "edit", Diff: []string{"-two", "+zwei"}}},
			Disk:    map[string]*string{"{added}/poem.txt": text("one\nzwei\nthree\n")},
		})
	// Where all is allowed an agent may reach every directory: that it knows of this one is what makes it an added one.
	known := one("add-dirs-told", "a model looks for work in each directory that the host gives it", []Need{NeedAddDirs, NeedRequests}, Turn{
		Prompt: "Where are you?", Steps: []Step{{Text: "In two places."}},
		Want: Want{Said: []string{"In two places."}, Heard: []string{InAdded}},
	})
	return []Case{
		needing(beside, NeedAddDirs), known,
		file("file-create", "a host shows what an agent makes", nil,
			Change{Kind: "create", Path: "{dir}/new.txt", Text: "alpha\nbeta\n"},
			Want{
				Changes: []ChangeWant{{Path: "{dir}/new.txt", Kind: "create", Diff: []string{"+alpha", "+beta"}}},
				Disk:    map[string]*string{"new.txt": text("alpha\nbeta\n")},
			}),
		file("file-edit", "a host shows what an agent changes", three,
			Change{Kind: "edit", Path: "{dir}/poem.txt", Old: "two", New: "zwei"},
			Want{
				Changes: []ChangeWant{{Path: "{dir}/poem.txt", Kind: "edit", Diff: []string{"-two", "+zwei"}}},
				Disk:    map[string]*string{"poem.txt": text("one\nzwei\nthree\n")},
			}),
		file("file-delete", "a host shows what an agent deletes", three,
			Change{Kind: "delete", Path: "{dir}/poem.txt", Old: "one\ntwo\nthree\n"},
			Want{Changes: []ChangeWant{{Path: "{dir}/poem.txt", Kind: "delete"}}, Disk: map[string]*string{"poem.txt": nil}}),
		file("file-move", "a host shows what an agent moves", three,
			Change{Kind: "move", Path: "{dir}/poem.txt", To: "{dir}/verse.txt", Old: "one\ntwo\nthree\n"},
			Want{
				Changes: []ChangeWant{{Path: "{dir}/verse.txt", Kind: "move"}},
				Disk:    map[string]*string{"poem.txt": nil, "verse.txt": text("one\ntwo\nthree\n")},
			}),
	}
}

func subagentCase() Case {
	return one("subagent", "what another agent does for the agent is seen, and is not its own", []Need{NeedSubagents}, Turn{
		Steps: []Step{
			{Subagent: &Subagent{Task: "Look around.", Command: "echo the sub-agent ran", Output: "the sub-agent ran", Text: "There is nothing around."}},
			{Text: "My helper is back."},
		},
		Want: Want{
			Subagents: []SubagentWant{{Text: "There is nothing around.", Output: "the sub-agent ran"}},
			Said:      []string{"My helper is back."}, Heard: []string{"There is nothing around."},
		},
	})
}

// settingCases are what a host may choose for a turn.
func settingCases() []Case {
	chosen := func(model string) Turn {
		t := again()
		t.Set.Model, t.Want.Model = model, model
		return t
	}
	thinking := func(effort string) Turn {
		t := again()
		t.Set.Effort, t.Want.Effort = effort, effort
		return t
	}
	schema := object(map[string]any{
		"type": "object", "required": []string{"answer"}, "additionalProperties": false,
		"properties": map[string]any{"answer": map[string]any{"type": "integer"}},
	})
	free := again()
	free.Want.Said = []string{"I go on."}
	return []Case{
		{Name: "model-chosen", Why: "the model that is asked is the one that the host chose, in every turn", Needs: []Need{NeedModels}, Turns: []Turn{
			chosen(InModel), chosen(InOtherModel), chosen(InModel),
		}},
		{Name: "effort", Why: "the model thinks as much as the host wants, in every turn", Needs: []Need{NeedEffort}, Turns: []Turn{
			thinking(InEffort), thinking(InMoreEffort),
		}},
		{Name: "structured-output", Why: "an answer has the shape that the host asked for, and only when it asked", Needs: []Need{NeedSchema}, Turns: []Turn{{
			Prompt: "What is it?", Set: backends.Settings{Schema: schema},
			Steps: []Step{{Output: []byte(`{"answer":42}`)}},
			Want:  Want{Output: `{"answer":42}`},
		}, free}},
		maxTurnsCase(),
		one("tool-choice-one", "a host can have one of its tools used", []Need{NeedTools, NeedToolChoice}, Turn{
			Set:   backends.Settings{ToolChoice: []byte(`{"type":"function","function":{"name":"lookup"}}`)},
			Tools: []backends.Tool{hostTool("other")},
			Steps: []Step{{Call: &Call{Tool: "lookup"}}, {Text: "It was used."}},
			Host:  Host{Replies: []Reply{reply("lookup", ok("used"))}},
			Want:  Want{Offered: []string{"lookup"}, Withheld: []string{"other"}, Said: []string{"It was used."}},
		}),
		one("max-cost", "a turn that has cost enough ends by itself", []Need{NeedTools, NeedMaxCost}, Turn{
			Set: backends.Settings{MaxCost: 0.01},
			Steps: []Step{
				{Usage: &events.Usage{InputTokens: count(1000), OutputTokens: count(1_000_000), Cost: dollars(25)}},
				{Call: &Call{Tool: "lookup"}},
				{Text: "That was too much."},
			},
			Host: Host{Replies: []Reply{reply("lookup", ok("dear"))}},
			Want: Want{Reason: backends.ReasonMaxCost, Never: []string{"That was too much."}, MaxAsks: 2},
		}),
	}
}

func count(n int64) *int64       { return &n }
func dollars(n float64) *float64 { return &n }

// hostTool is a tool of the host as Tools makes them.
func hostTool(name string) backends.Tool {
	return Tools([]Step{{Call: &Call{Tool: name}}})[0]
}

// maxTurnsCase: the third answer of the model may be asked for, but nothing of
// it is seen.
func maxTurnsCase() Case {
	t := Turn{Set: backends.Settings{MaxTurns: 2}, Want: Want{
		Reason: backends.ReasonMaxTurns, Said: []string{"One.", "Two."}, Never: []string{"Three."}, MaxAsks: 3,
	}}
	for _, word := range []string{"One.", "Two.", "Three."} {
		t.Steps = append(t.Steps, Step{Text: word}, Step{Call: &Call{Tool: "lookup"}})
		t.Host.Replies = append(t.Host.Replies, reply("lookup", ok("go on")))
	}
	t.Steps = append(t.Steps, Step{Text: "Four."})
	return needing(one("max-turns", "a turn goes round its loop as often as the host allows", tools(), t), NeedMaxTurns)
}

// inputCases are attachments beside images.
func inputCases() []Case {
	attached := func(name, why string, p events.Part, content string) Case {
		heard := []string{p.Name}
		if p.Type != events.PartFile { // a text is told as it is
			heard = append(heard, p.MimeType)
		}
		p.Data = base64.StdEncoding.EncodeToString([]byte(content))
		return one(name, why, nil, Turn{
			Prompt: "What is this?", Attach: []events.Part{p}, Steps: []Step{{Text: "It is a file."}},
			Want: Want{Heard: heard, HeardFiles: []string{content}, Said: []string{"It is a file."}},
		})
	}
	return []Case{
		attached("prompt-with-file", "a file of the user's reaches the agent",
			events.Part{Type: events.PartFile, Name: "notes.txt", MimeType: "text/plain"}, "the marker of the file is sesquipedalian\n"),
		attached("prompt-with-audio", "what no model hears is a file that the agent can work with",
			events.Part{Type: events.PartAudio, Name: "clip.mp3", MimeType: "audio/mpeg"}, "ID3\x00\xff\xfb\x90 not much of a song"),
		attached("prompt-with-video", "what no model sees is a file that the agent can work with",
			events.Part{Type: events.PartVideo, Name: "clip.mp4", MimeType: "video/mp4"}, "\x00\x00\x00\x18ftypmp42\xff not much of a film"),
	}
}

// toolSetCases are about which tools of the host the model is offered.
func toolSetCases() []Case {
	with := func(tool string, others ...string) Turn {
		t := Turn{
			Prompt: "Use " + tool + ".", Steps: []Step{{Call: &Call{Tool: tool}}, {Text: tool + " was used."}},
			Host: Host{Replies: []Reply{reply(tool, ok("result-of-"+tool))}},
			Want: Want{
				Requests: []RequestWant{{Kind: events.KindTool, Tool: tool, Outcome: events.OutcomeOK}},
				Said:     []string{tool + " was used."}, Heard: []string{"result-of-" + tool}, Offered: append(others, tool),
			},
		}
		for _, o := range others {
			t.Tools = append(t.Tools, hostTool(o))
		}
		return t
	}
	none := Turn{Prompt: "Use nothing.", Steps: []Step{{Text: "Nothing was used."}}, Want: Want{Said: []string{"Nothing was used."}, Withheld: []string{"alpha"}}}
	first := with("alpha")
	first.Want.Heard = append(first.Want.Heard, "Use nothing.")
	second := with("beta")
	second.Want.Withheld = []string{"alpha"}
	second.Want.Heard = append(second.Want.Heard, "Use alpha.") // it goes on
	third := with("alpha", "beta")
	third.Want.Heard = append(third.Want.Heard, "Use beta.")
	clash := with(InClash)
	clash.Want.NoTool = true
	return []Case{
		{Name: "tools-changed", Why: "a host may have other tools in every turn, and the agent goes on", Needs: tools(), Turns: []Turn{none, first, second, third}},
		{Name: "clashing-name", Why: "a tool of the host has its own name, also where the agent has one of that name", Needs: []Need{NeedTools, NeedNatives}, Turns: []Turn{clash}},
	}
}

// usageCases are what a host is billed by.
func usageCases() []Case {
	said := func(name, why string, needs []Need, u *events.Usage, w Want) Case {
		w.Said = []string{"Counted."}
		return one(name, why, needs, Turn{Steps: []Step{{Usage: u}, {Text: "Counted."}}, Want: w})
	}
	cached := &events.Usage{InputTokens: count(100), CacheReadTokens: count(40), OutputTokens: count(30)}
	thought := &events.Usage{InputTokens: count(100), OutputTokens: count(30), ReasoningTokens: count(12)}
	const held = 200 * time.Millisecond
	rounds := Turn{Want: Want{Usage: tokens(60, 6), Said: []string{"Counted."}}}
	for i := range int64(2) {
		rounds.Steps = append(rounds.Steps, Step{Usage: tokens(10*(i+1), i+1)}, Step{Call: &Call{Tool: "lookup"}})
		rounds.Host.Replies = append(rounds.Host.Replies, reply("lookup", ok("go on")))
	}
	rounds.Steps = append(rounds.Steps, Step{Usage: tokens(30, 3)}, Step{Text: "Counted."})
	return []Case{
		said("usage-cached", "cached tokens are not counted twice", []Need{NeedCached}, cached, Want{Usage: cached}),
		said("usage-reasoning", "tokens of reasoning are not counted twice", []Need{NeedReasoning}, thought, Want{Usage: thought}),
		one("usage-of-model-turns", "a run's usage is the sum of all its model turns", tools(), rounds),
		said("usage-cost", "a host knows what a run cost", []Need{NeedCost},
			&events.Usage{InputTokens: count(100), OutputTokens: count(30), Cost: dollars(0.5)}, Want{Counted: []string{"cost"}}),
		said("usage-premium", "a host knows what a run took of its premium requests", []Need{NeedPremium},
			&events.Usage{InputTokens: count(100), OutputTokens: count(30), PremiumRequests: count(1)}, Want{Counted: []string{"premium_requests"}}),
		one("usage-times", "a host knows how long a run took, and until it said something", nil, Turn{
			Steps: []Step{{Usage: tokens(100, 10)}, {SleepMS: int(held.Milliseconds())}, {Text: "Counted."}},
			Want: Want{
				Counted: []string{"duration", "ttft_ms", "model", "backend", "input_tokens", "output_tokens", "total_tokens"},
				Held:    held, Said: []string{"Counted."},
			},
		}),
	}
}

// steerCases put something into a turn while it runs. It is over when that is
// answered too.
func steerCases() []Case {
	return []Case{
		one("steer-in-text", "a user can put in a word while the agent talks", []Need{NeedSteer}, Turn{
			Steps: []Step{
				{Text: "I talk and talk and talk and talk and talk.", ChunkBytes: 4, DelayMS: 250}, // longer than a word takes to the agent of a busy machine
				{Next: true},
				{Text: "I heard you."},
			},
			Host: Host{Steer: Steer{On: events.TypeMessageDelta, Text: "steered to the parallax"}},
			Want: Want{Said: []string{"I heard you."}, HeardOnce: []string{"steered to the parallax"}},
		}),
		one("steer-in-native-tool", "a user can put in a word while the agent works", []Need{NeedSteer}, Turn{
			Steps: []Step{
				{Tool: &Tool{Name: "shell", Input: shell("sleep 3; echo the output"), Output: "the output", ExitCode: number(0), MS: int((3 * time.Second).Milliseconds())}},
				{Text: "I heard you."},
			},
			Host: Host{Steer: Steer{On: events.TypeToolCall, Text: "steered to the parallax"}},
			Want: Want{Said: []string{"I heard you."}, HeardOnce: []string{"steered to the parallax"}},
		}),
	}
}

// compactCases: a summary stands for what was said. The words of the user may
// stay, those of the agent do not.
func compactCases() []Case {
	first := Turn{
		Prompt: "Remember the word quincunx.",
		Steps:  []Step{{Text: "It is kept, by the syzygy."}},
		Want:   Want{Said: []string{"It is kept, by the syzygy."}},
	}
	full := first
	full.Steps = []Step{{Full: true}, {Text: "It is kept, by the syzygy."}}
	after := func() Turn {
		t := again("quincunx")
		t.Want.Unheard, t.Want.States = []string{"syzygy"}, []string{events.StateCompacting}
		return t
	}
	asked, itself := after(), after()
	summary := Compact{Summary: "The user wants the word quincunx kept."}
	asked.Compact = &summary
	auto := summary
	auto.Auto = true
	itself.Steps = append([]Step{{Compact: &auto}}, itself.Steps...)
	return []Case{
		{Name: "compact-on-request", Why: "a host can have a long conversation shortened, and it goes on", Needs: []Need{NeedCompact}, Turns: []Turn{first, asked}},
		{Name: "compact-by-itself", Why: "a host sees why an agent is silent and has forgotten", Turns: []Turn{full, itself}},
	}
}
