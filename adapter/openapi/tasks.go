package openapi

import "innerd/adapter/api"

func states() []string {
	return []string{api.StateSubmitted, api.StateWorking, api.StateInputRequired, api.StateCompleted, api.StateFailed, api.StateCanceled}
}

// task is an operation on one run, which may be no such.
func task(o Operation) Operation {
	o.Faults = append(o.Faults, noRun)
	return kept(o)
}

func theTask(about string) []Answer {
	return []Answer{{Status: 200, About: about, Type: api.Task{}, Example: exampleTask}}
}

func tasks() []Operation {
	return append(taskReads(), taskWrites()...)
}

func taskReads() []Operation {
	return []Operation{
		kept(Operation{
			Method: "GET", Path: "/tasks", ID: "listTasks", Tag: "tasks", Title: "Your runs, newest first",
			Params: []Param{
				{"context_id", "query", "of this conversation", text(), "chat-1"},
				{"state", "query", "in this state", text("enum", states()), "completed"},
				{"page_size", "query", "tasks a page; 50", number(1, 100), 20},
				{"page_token", "query", "next_page_token of the page before", text(), nil},
			},
			Answers: []Answer{{Status: 200, About: "a page of tasks, each in brief", Type: api.Tasks{}, Example: `{"tasks":[],"next_page_token":""}`}},
			Faults:  []Fault{badQuery},
		}),
		task(Operation{
			Method: "GET", Path: "/tasks/{id}", ID: "getTask", Tag: "tasks", Title: "A run", Answers: theTask("the task"),
		}),
		task(Operation{
			Method: "GET", Path: "/tasks/{id}/events", ID: "followTask", Tag: "tasks", Title: "Follow a run",
			About: "All events of all types after one, then live to the end.\n\n" + streamAbout,
			Params: []Param{
				{"after", "query", "the number of the last event that you have", number(0, 0), 0},
				lastEventID("the same; where both are sent, this counts"),
			},
			Answers: []Answer{
				{Status: 200, About: "the events", Media: "text/event-stream", Events: true, Example: exampleStream},
				{Status: 204, About: "the run has ended and nothing is left"},
			},
			Faults: []Fault{badQuery, fault(410, "not_found", "that event is past the end or is not kept any more; oldest and latest say what is", "*journal.GoneError").as("Gone"), noPlace},
		}),
		task(Operation{
			Method: "GET", Path: "/tasks/{id}/blobs/{sha256}", ID: "getBlob", Tag: "tasks", Title: "The whole of a value that was too long for its event",
			Answers: []Answer{{Status: 200, About: "the value", Media: "application/octet-stream", Type: map[string]any{"type": "string", "contentEncoding": "binary"}}},
			Faults:  []Fault{fault(404, "not_found", "there is no such value", "no such blob")},
		}),
	}
}

func taskWrites() []Operation {
	over := conflict("the run is over", "the run has ended")
	answered := conflict("the request is answered or closed", "the request is answered or closed")
	noRequest := fault(404, "not_found", "there is no such request", "no such request")
	unfit := fault(400, "invalid_request", "the answer does not fit the request, which stays open", "invalid answer")
	return []Operation{
		task(Operation{
			Method: "POST", Path: "/tasks/{id}:cancel", ID: "cancelTask", Tag: "tasks", Title: "Cancel a run",
			About:   "Answers when the run has ended, after 8 s at the latest; then with canceling.",
			Body:    &Body{Type: api.Cancel{}, Optional: true, Examples: []Example{{"reason", "With a reason", `{"reason":"enough"}`}}},
			Answers: theTask("the task, as it ended or as it stands"),
			Faults:  []Fault{over},
		}),
		task(Operation{
			Method: "POST", Path: "/tasks/{id}:reply", ID: "replyTask", Tag: "tasks", Title: "Answer a question in words",
			Body:    &Body{Type: api.Reply{}, Examples: []Example{{"words", "To the oldest open question", `{"text":"red"}`}}},
			Answers: theTask("the task"),
			Faults:  []Fault{unfit, noRequest, over, answered},
		}),
		task(Operation{
			Method: "POST", Path: "/tasks/{id}/requests/{request_id}", ID: "answerRequest", Tag: "tasks", Title: "Answer a permission or a question",
			Body: &Body{Type: api.Answer{}, Examples: []Example{
				{"permission", "A permission", `{"option":"allow_once"}`},
				{"denied", "A permission that is not given", `{"option":"deny","message":"Not in this folder."}`},
				{"question", "A question, as a value that fits its schema", `{"value":{"answer":"red"}}`},
			}},
			Answers: theTask("the task"),
			Faults:  []Fault{unfit, noRequest, over, answered},
		}),
		task(Operation{
			Method: "POST", Path: "/tasks/{id}:steer", ID: "steerTask", Tag: "tasks", Title: "Tell a running turn more",
			About: "Answers when the agent has taken it; session.steered stands in the log at that place.",
			Body: &Body{Type: api.Steer{}, Examples: []Example{
				{"text", "A text", `{"text":"Leave the tests alone."}`},
				{"messages", "Messages, as a request has them", `{"messages":[{"role":"user","content":"Leave the tests alone."}]}`},
			}},
			Answers: theTask("the task"),
			Faults: []Fault{
				over, conflict("the run is queued, or waits for you: answer that first", "the run waits"), canceled,
				stopping, agentCan, agentHas,
			},
		}),
		task(Operation{
			Method: "DELETE", Path: "/tasks/{id}", ID: "deleteTask", Tag: "tasks", Title: "Forget a run that has ended",
			Answers: []Answer{{Status: 204, About: "it is gone"}},
			Faults:  []Fault{conflict("the run is on", "a run is on")},
		}),
		kept(Operation{
			Method: "POST", Path: "/tools/{tool_call_id}/result", ID: "toolResult", Tag: "tools", Title: "The result of a tool of yours",
			About: "The same body again is ok too, with duplicate. What is late, unknown, another's or a second, different result is not_found with status 200: there is nothing to retry.",
			Body: &Body{Type: api.ToolResult{}, Examples: []Example{
				{"text", "A text", `{"result":"42"}`},
				{"error", "A failure", `{"result":"There is no such file.","is_error":true}`},
				{"parts", "Parts", `{"content":[{"type":"text","text":"Here it is."},{"type":"image","mime_type":"image/png","data":"iVBORw0KGgo="},{"type":"json","json":{"n":1}}]}`},
			}},
			Answers: []Answer{{Status: 200, About: "whether somebody waited for it", Type: api.ToolResultStatus{}, Example: `{"status":"ok","tool_call_id":"tc_01"}`}},
		}),
	}
}
