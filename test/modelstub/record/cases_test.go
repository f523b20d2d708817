package record_test

import (
	"encoding/json"

	"innerd/test/modelstub"
	"innerd/test/modelstub/claudecli"
)

// A recording is one transcript.
type recording struct {
	name   string
	turns  []modelstub.Turn
	host   claudecli.Host
	env    []string
	drive  func(*session) // nil: one message, one result
	args   []string
	resume string // name of a recording whose turns come first, in a process that is not recorded
	exit   int
}

// Every turn says what it used, so that the numbers in a transcript stay.
func say(blocks ...modelstub.Block) modelstub.Turn {
	return modelstub.Say(blocks...).Uses(modelstub.Usage{Input: 4, CacheRead: 12000, CacheWrite: 300, Output: 40})
}

func bash(command string) modelstub.Block {
	return modelstub.Tool("Bash", map[string]any{"command": command, "description": "A command"})
}

func bridged(tool string, args map[string]any) modelstub.Block {
	return modelstub.Tool("mcp__host__"+tool, args)
}

// The host's tools in all recordings that have any.
var hostTools = []map[string]any{
	{
		"name": "get_weather", "description": "The weather in a city",
		"inputSchema": map[string]any{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}, "required": []string{"city"}},
		"annotations": map[string]any{"readOnlyHint": true},
	},
	{
		"name": "draw", "description": "A picture", "inputSchema": map[string]any{"type": "object", "properties": map[string]any{}},
		"annotations": map[string]any{"readOnlyHint": true},
	},
	{
		"name": "fail", "description": "Always an error", "inputSchema": map[string]any{"type": "object", "properties": map[string]any{}},
		"annotations": map[string]any{"readOnlyHint": true},
	},
}

// pixel is a PNG of one pixel.
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

func callTool(name string, args json.RawMessage) any {
	text := func(s string) map[string]any { return map[string]any{"type": "text", "text": s} }
	switch name {
	case "get_weather":
		var in struct{ City string }
		_ = json.Unmarshal(args, &in) // an empty city is fine
		return map[string]any{"content": []any{text("Sunny in " + in.City)}}
	case "draw":
		return map[string]any{"content": []any{text("a picture"), map[string]any{"type": "image", "mimeType": "image/png", "data": pixel}}}
	default:
		return map[string]any{"content": []any{text("the tool broke")}, "isError": true}
	}
}

var bridge = claudecli.Host{Tools: hostTools, Call: callTool}

var denies = claudecli.Host{Permit: func(string, json.RawMessage) any { return claudecli.Deny("the user says no") }}

// answers picks the second option of every question.
var answers = claudecli.Host{Permit: func(tool string, input json.RawMessage) any {
	var in map[string]any
	if tool != "AskUserQuestion" || json.Unmarshal(input, &in) != nil {
		return claudecli.Deny("only questions")
	}
	in["answers"] = map[string]any{"Which colour?": "Blue"}
	return claudecli.Allow(in)
}}

var question = modelstub.Tool("AskUserQuestion", map[string]any{"questions": []any{map[string]any{
	"question": "Which colour?", "header": "Colour", "multiSelect": false,
	"options": []any{
		map[string]any{"label": "Red", "description": "like a tomato"}, map[string]any{"label": "Blue", "description": "like the sea"},
	},
}}})

var recordings = []recording{
	{name: "text", turns: []modelstub.Turn{say(modelstub.Text("Hello from the model, with \u0085 and 👋🏽."))}},
	{name: "thinking", turns: []modelstub.Turn{say(modelstub.Thinking("Let me think about this."), modelstub.Text("Forty-two."))}},
	{name: "bash", turns: []modelstub.Turn{
		say(modelstub.Text("I will look."), bash("echo hello; echo oops >&2; exit 3")), say(modelstub.Text("It said so.")),
	}},
	{name: "write-edit", turns: []modelstub.Turn{
		say(modelstub.Tool("Write", map[string]any{"file_path": "{{cwd}}/poem.txt", "content": "roses are red\nviolets are blue\n"}).Chunk(1000)),
		say(modelstub.Tool("Edit", map[string]any{"file_path": "{{cwd}}/poem.txt", "old_string": "red", "new_string": "white"}).Chunk(1000)),
		say(modelstub.Text("Written and edited.")),
	}},
	{name: "mcp-text", host: bridge, turns: []modelstub.Turn{
		say(modelstub.Text("Let me ask."), bridged("get_weather", map[string]any{"city": "Berlin"})), say(modelstub.Text("{{tool_result}}!")),
	}},
	{name: "mcp-error", host: bridge, turns: []modelstub.Turn{say(bridged("fail", map[string]any{})), say(modelstub.Text("It failed: {{tool_result}}"))}},
	{name: "mcp-image", host: bridge, turns: []modelstub.Turn{say(bridged("draw", map[string]any{})), say(modelstub.Text("Nice."))}},
	{name: "mcp-parallel", host: bridge, drive: parallel, turns: []modelstub.Turn{
		say(bridged("get_weather", map[string]any{"city": "Berlin"}), bridged("get_weather", map[string]any{"city": "Oslo"}),
			bridged("get_weather", map[string]any{"city": "Rome"})),
		say(modelstub.Text("All three are in.")),
	}},
	{name: "permission-allow", turns: []modelstub.Turn{say(bash("echo allowed > file; cat file")), say(modelstub.Text("Done."))}},
	{name: "permission-deny", host: denies, turns: []modelstub.Turn{say(bash("echo denied > file")), say(modelstub.Text("Then not."))}},
	{name: "ask-user", host: answers, turns: []modelstub.Turn{say(question), say(modelstub.Text("Noted."))}},
	{name: "interrupt-text", drive: interruptText},
	{name: "interrupt-tool", drive: interruptTool},
	{name: "interrupt-mcp", drive: interruptBridged},
	{name: "retry-429", turns: []modelstub.Turn{modelstub.RateLimited(0), say(modelstub.Text("After a while."))}},
	{name: "retry-529", turns: []modelstub.Turn{modelstub.Fail(529), say(modelstub.Text("After a while."))}},
	{name: "retry-cut", drive: cutMidStream},
	{name: "retry-cut-after-thinking", drive: cutAfterThinking},
	{name: "retry-eof-after-block", turns: []modelstub.Turn{
		say(modelstub.Text("First half. "), modelstub.Control().Cut(modelstub.CutEOF)), say(modelstub.Text("Second half.")),
	}},
	{name: "retry-overloaded-event", turns: []modelstub.Turn{ // the CLI asks again at once, without streaming
		say(modelstub.Text("Half a sen").Overloaded()).Instead(modelstub.Text("A whole sentence.")),
	}},
	{name: "retry-whole", drive: cutForever},
	{name: "auth-401", env: []string{"CLAUDE_CODE_MAX_RETRIES=0"}, turns: []modelstub.Turn{modelstub.Fail(401).Forever()}, exit: 1},
	{name: "auth-403", turns: []modelstub.Turn{modelstub.Fail(403).Forever()}, exit: 1},
	{name: "overloaded-529", env: []string{"CLAUDE_CODE_MAX_RETRIES=0"}, turns: []modelstub.Turn{modelstub.Fail(529).Forever()}, exit: 1},
	{name: "rate-limit-429", env: []string{"CLAUDE_CODE_MAX_RETRIES=0"}, turns: []modelstub.Turn{modelstub.RateLimited(0).Forever()}, exit: 1},
	{name: "bad-request-400", turns: []modelstub.Turn{modelstub.Fail(400).Forever()}, exit: 1},
	{name: "no-credit", turns: []modelstub.Turn{modelstub.NoCredit().Forever()}, exit: 1},
	{name: "no-model-404", turns: []modelstub.Turn{modelstub.Fail(404).Forever()}, exit: 1},
	{name: "context-too-long", turns: []modelstub.Turn{modelstub.ContextTooLong().Forever()}, exit: 1},
	{name: "max-tokens", turns: []modelstub.Turn{say(modelstub.Text("This goes on and")).Stops("max_tokens"), say(modelstub.Text(" then it ends."))}},
	{name: "refusal", turns: []modelstub.Turn{say(modelstub.Text("I can't")).Stops("refusal").Forever()}, exit: 1},
	{name: "empty", turns: []modelstub.Turn{say().Forever()}},
	{name: "unknown-events", turns: []modelstub.Turn{say(
		modelstub.Text("Still ").Event("surprise", `{"type":"surprise","x":1}`).Add("fine."), modelstub.Control().Event("more", `{"type":"more"}`),
	)}},
	{name: "bad-tool-json", turns: []modelstub.Turn{say(modelstub.BadTool("Bash", `{"command": "echo`)), say(modelstub.Text("Sorry."))}},
	{name: "two-turns", drive: twoTurns, turns: []modelstub.Turn{say(modelstub.Text("First answer.")), say(modelstub.Text("Second answer."))}},
	{name: "message-in-tool", drive: messageInTool},
	{name: "resume", resume: "00000000-0000-4000-8000-0000000000aa", turns: []modelstub.Turn{
		say(modelstub.Text("I will remember.")), say(modelstub.Text("I remember.")),
	}},
	{name: "resume-missing", args: []string{"--resume", "00000000-0000-4000-8000-0000000000bb"}, drive: resumeMissing, exit: 1},
	{name: "image-input", drive: imageInput, turns: []modelstub.Turn{say(modelstub.Text("A red pixel."))}},
	{name: "subagent", args: []string{"--forward-subagent-text"}, turns: []modelstub.Turn{
		say(modelstub.Text("I delegate."), modelstub.Tool("Agent", map[string]any{"description": "A task", "prompt": "Look around.", "subagent_type": "general-purpose"})),
		say(modelstub.Thinking("I am another."), modelstub.Text("I look."), bash("echo around")), say(modelstub.Text("There is nothing around.")),
		say(modelstub.Text("My helper is back.")),
	}},
	{name: "background-shell", env: withBackground, drive: twoResults, turns: []modelstub.Turn{
		say(modelstub.Tool("Bash", map[string]any{"command": "sleep 0.5; echo over", "description": "A command", "run_in_background": true})),
		say(modelstub.Text("It runs.")), say(modelstub.Text("It is over.")),
	}},
	{name: "compact-request", drive: compactRequest, turns: []modelstub.Turn{
		say(modelstub.Text("First answer.")), say(modelstub.Text("<summary>They talked.</summary>")), say(modelstub.Text("Second answer.")),
	}},
	{name: "compact-auto", drive: twoTurns, turns: []modelstub.Turn{
		modelstub.Say(modelstub.Text("First answer.")).Uses(modelstub.Usage{Input: 990_000, Output: 10}),
		say(modelstub.Text("<summary>They talked.</summary>")), say(modelstub.Text("Second answer.")),
	}},
	{name: "structured-output", args: []string{"--json-schema", `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`}, turns: []modelstub.Turn{
		say(modelstub.Text("I count."), bash("echo 42")), say(modelstub.Tool("StructuredOutput", map[string]any{"m": 1})),
		say(modelstub.Text("So:"), modelstub.Tool("StructuredOutput", map[string]any{"n": 42})),
	}},
	{name: "steer-in-text", drive: steerInText, turns: []modelstub.Turn{}},
}

// withBackground lets claude have work in the background.
var withBackground = []string{"CLAUDE_CODE_DISABLE_BACKGROUND_TASKS="}
