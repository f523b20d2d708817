package openapi

import "innerd/adapter/api"

// hello is the example that most answers are of.
const exampleTask = `{"id":"example-0001","contextId":"chat-1","status":{"state":"completed","timestamp":"2026-01-02T03:04:05.678Z"},
"artifacts":[{"artifactId":"m1","mimeType":"text/plain","parts":[{"kind":"text","text":"Hello"}],"index":0}],
"history":[{"role":"user","content":"Say hello."}],"backend":"simulate","last_event_id":9,"reason":"end_turn","usage":{"input_tokens":3,"output_tokens":1,"backend":"simulate"}}`

const exampleStream = `id: 1
data: {"id":1,"ts":1764290000000,"type":"session.task_id","data":{"task_id":"example-0001","context_id":"chat-1","backend":"simulate"}}

id: 4
data: {"id":4,"ts":1764290000001,"type":"assistant.message_delta","data":{"delta":"Hello","message_id":"m1"}}

id: 5
data: {"id":5,"ts":1764290000002,"type":"assistant.message","data":{"content":"Hello","message_id":"m1","finish_reason":"end_turn"}}

id: 7
data: {"id":7,"ts":1764290000003,"type":"session.end","data":{"state":"completed","reason":"end_turn"}}

data: [DONE]

`

// runExamples are requests for runs that end by themselves.
func runExamples() []Example {
	return []Example{
		{"prompt", "A prompt", `{"context_id":"chat-1","messages":[{"role":"user","content":"Say hello."}],"metadata":{"backend":"simulate"}}`},
		{"history", "A history, tools of the host and settings", `{"context_id":"https://host.example/chats/2","messages":[
{"role":"system","content":"Be brief."},
{"role":"user","content":[{"type":"text","text":"What is in the image?"}],"images":[{"content":"iVBORw0KGgo=","mime_type":"image/png","id":"i1"}]},
{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"look","arguments":"{\"at\":\"i1\"}"}}]},
{"role":"tool","tool_name":"look","tool_call_id":"c1","content":"A cat."},
{"role":"assistant","content":"A cat."},
{"role":"user","content":"Thank you."}],
"metadata":{"backend":"simulate","model":null,"native_tool_schemas":[{"name":"look","description":"Looks at an image.","parameters":{"type":"object","properties":{"at":{"type":"string"}}}}],
"events":"all","timeout_s":60,"max_turns":3,"permission_mode":"auto","env":{"LANG":"C"}}}`},
		{"again", "With an id of the host's own: the same request again attaches to that run", `{"messages":[{"role":"user","content":"Say hello."}],"metadata":{"backend":"simulate","task_id":"example-0001","events":["session.status","ask"]}}`},
		{"query", "As the host's own A2A tool asks: without messages", `{"messages":[],"metadata":{"backend":"simulate","query":"Say hello.","context":"The user is new."}}`},
	}
}

func runFaults() []Fault {
	return []Fault{
		conflict("a task_id used with another body, or on_busy reject", "conflict"),
		fault(409, "busy", "the conversation's queue is full", "the conversation's queue is full"),
		fault(500, "internal", "the run could not be logged"),
		noPlace,
		stopping,
		fault(503, "rate_limit", "the model's provider refuses work until Retry-After", "*runs.LimitedError"),
	}
}

const streamAbout = `Each frame is one event on one line of ASCII, with its number in the run on an ` + "`id:`" + ` line before it; the data are an
Event. After session.end comes [DONE], and the body ends. A stream that has to end before its run is cut, never ended cleanly:
go on with /tasks/{id}/events.`

func lastEventID(about string) Param {
	return Param{Name: "Last-Event-ID", In: "header", About: about, Schema: text(), Example: "0"}
}

func messages() []Operation {
	return []Operation{
		kept(Operation{
			Method: "POST", Path: "/message:stream", ID: "streamRun", Tag: "runs", Title: "Start a run and stream its events",
			About:   "Answers at once. The run belongs to its readers: without detach or a task_id it is canceled when none is left.\n\n" + streamAbout,
			Params:  []Param{lastEventID("where a request with the task_id of a run that is there shall go on from")},
			Body:    &Body{Type: api.Request{}, Examples: runExamples()},
			Answers: []Answer{{Status: 200, About: "the run's events, of the basic types and of those that metadata.events asks for", Media: "text/event-stream", Events: true, Example: exampleStream}},
			Faults: append(runFaults(),
				fault(410, "not_found", "the event of Last-Event-ID is not there", "*journal.GoneError").as("Gone")),
		}),
		kept(Operation{
			Method: "POST", Path: "/message:send", ID: "sendRun", Tag: "runs", Title: "Start a run and wait for its end",
			About:   "Answers when the run has ended, also when it failed, and waits through questions.",
			Body:    &Body{Type: api.Request{}, Examples: runExamples()},
			Answers: []Answer{{Status: 200, About: "the task, as it ended", Type: api.Task{}, Example: exampleTask}},
			Faults:  runFaults(),
		}),
	}
}
