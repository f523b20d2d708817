package openapi

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"innerd/adapter/a2a/spec"
)

// A2AErrors are the errors of A2A: those of the protocol, and every server's.
func A2AErrors() []*spec.Error {
	return []*spec.Error{
		spec.ErrTaskNotFound, spec.ErrTaskNotCancelable, spec.ErrPushNotSupported, spec.ErrUnsupported, spec.ErrContentType,
		spec.ErrInvalidResponse, spec.ErrNoExtendedCard, spec.ErrExtension, spec.ErrVersion,
		spec.ErrParse, spec.ErrRequest, spec.ErrMethod, spec.ErrInvalidParams, spec.ErrInternal,
		spec.ErrUnauthenticated, spec.ErrForbidden, spec.ErrTooLarge, spec.ErrBusy, spec.ErrUnavailable, spec.ErrRateLimited,
	}
}

// unsupportedMedia is what HTTP itself has a word for.
const unsupportedMedia = http.StatusUnsupportedMediaType

// a2aReasons are the reasons of the errors of each status of HTTP+JSON.
func a2aReasons() map[int][]string {
	out := map[int][]string{http.StatusMethodNotAllowed: {spec.ErrMethod.Reason}, unsupportedMedia: {spec.ErrContentType.Reason}}
	for _, e := range A2AErrors() {
		out[e.HTTP] = append(out[e.HTTP], e.Reason)
	}
	return out
}

// a2aFaults are the errors of an operation of A2A, by status.
func a2aFaults(statuses ...int) []Fault {
	var out []Fault
	for _, status := range statuses {
		out = append(out, Fault{Status: status, Response: fmt.Sprintf("A2A%d", status)})
	}
	return out
}

// a2aResponses are the components that those are.
func a2aResponses() map[string]any {
	out := map[string]any{}
	for status, reasons := range a2aReasons() {
		out[fmt.Sprintf("A2A%d", status)] = map[string]any{
			"description": "A2A: " + strings.Join(reasons, ", "),
			"content":     map[string]any{"application/json": map[string]any{"schema": ref("A2AError")}},
		}
	}
	return out
}

// A2AError is an error of HTTP+JSON: google.rpc.Status.
type A2AError struct {
	Error A2AStatus `json:"error"`
}

// A2AStatus is what an A2AError holds.
type A2AStatus struct {
	Code    int              `json:"code"`    // of HTTP
	Status  string           `json:"status"`  // of gRPC, by name
	Message string           `json:"message"` // what is wrong
	Details []map[string]any `json:"details"` // google.rpc.ErrorInfo with the reason, google.rpc.BadRequest with the fields
}

// A2ACall is a request of JSON-RPC.
type A2ACall struct {
	JSONRPC string         `json:"jsonrpc"` // 2.0
	ID      any            `json:"id"`      // a text or a number
	Method  string         `json:"method"`
	Params  map[string]any `json:"params,omitempty"` // the request of the method, as A2A has it
}

// A2AMethods are the methods of JSON-RPC.
func A2AMethods() []string {
	return []string{
		"SendMessage", "SendStreamingMessage", "GetTask", "ListTasks", "CancelTask", "SubscribeToTask",
		"CreateTaskPushNotificationConfig", "GetTaskPushNotificationConfig", "ListTaskPushNotificationConfigs", "DeleteTaskPushNotificationConfig",
		"GetExtendedAgentCard",
	}
}

// a2aPlaces are the paths below which HTTP+JSON is served.
var a2aPlaces = []struct{ prefix, name, of string }{
	{"/a2a", "", ""},
	{"/a2a/{tenant}", "OfTenant", " (of one agent)"},
	{"/a2a/agents/{tenant}", "OfAgent", " (of one agent)"},
}

var hello10 = Example{"hello", "A message that begins a task", `{"message":{"messageId":"m-1","role":"ROLE_USER","parts":[{"text":"Say hello."}],"contextId":"a2a-1"},"configuration":{"returnImmediately":false}}`}

func a2a() []Operation {
	var all []Operation
	for _, at := range a2aPlaces {
		ops := a2aREST()
		if at.name != "OfTenant" {
			ops = append(a2aRoots(), ops...)
		}
		for _, o := range ops {
			if o.ID == "a2aCard" && at.name != "" {
				o.Faults = append(slices.Clone(o.Faults), a2aFaults(http.StatusNotFound)...) // there may be no such agent
			}
			o.Path, o.ID, o.Title, o.Tag = at.prefix+o.Path, o.ID+at.name, o.Title+at.of, "a2a"
			if at.name != "" && o.Body != nil {
				body := *o.Body
				body.Examples = nil // one place is enough
				o.Body = &body
			}
			all = append(all, o)
		}
	}
	return all
}

// a2aRoots are the card and JSON-RPC.
func a2aRoots() []Operation {
	return []Operation{
		{
			Method: "POST", Path: "", ID: "a2aRPC", Title: "A2A 1.0 over JSON-RPC; methods of 0.3 too, by their names",
			About: "Methods: " + strings.Join(A2AMethods(), ", ") + ".\n\nErrors are answered with status 200 and error, but where HTTP itself has a word. SendStreamingMessage and SubscribeToTask answer with a stream of such answers.",
			Body: &Body{Type: A2ACall{}, Examples: []Example{
				{"send", "SendMessage", `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m-2","role":"ROLE_USER","parts":[{"text":"Say hello."}]}}}`},
				{"stream", "SendStreamingMessage", `{"jsonrpc":"2.0","id":"2","method":"SendStreamingMessage","params":{"message":{"messageId":"m-3","role":"ROLE_USER","parts":[{"text":"Say hello."}]}}}`},
				{"list", "ListTasks", `{"jsonrpc":"2.0","id":3,"method":"ListTasks","params":{"pageSize":5}}`},
			}},
			Answers: []Answer{
				{Status: 200, About: "result, or error", Type: ref("A2AReply")},
				{Status: 200, About: "for the methods that stream", Media: "text/event-stream"},
			},
			Faults: append(a2aFaults(401, 403, 429), fault(413, "-", "the body is longer than --max-body").as("A2AReply"), fault(unsupportedMedia, "-", "the body is not JSON by its Content-Type").as("A2AReply")),
		},
		{
			Method: "GET", Path: "/.well-known/agent-card.json", ID: "a2aCard", Title: "The agent card", Open: true, Params: []Param{ifChanged},
			Answers: []Answer{
				{Status: 200, About: "the card", Type: spec.AgentCard{}, Headers: tagged},
				{Status: 304, About: "you have it", Headers: tagged},
			},
			Faults: a2aFaults(400, 403, 429, 500, 503),
		},
	}
}

const aboutA2A = "See docs/a2a.md, and A2A 1.0 for the words."

// a2aREST is HTTP+JSON, as its paths are below a place.
func a2aREST() []Operation {
	read, write := []int{400, 401, 403, 404, 429, 500, 503}, []int{400, 401, 403, 404, 413, unsupportedMedia, 429, 500, 503}
	the := func(about string, v any) []Answer { return []Answer{{Status: 200, About: about, Type: v}} }
	stream := []Answer{{Status: 200, About: "a stream of StreamResponse", Media: "text/event-stream"}}
	history := Param{"historyLength", "query", "messages of the history; absent: all", number(0, 0), 2}
	out := []Operation{
		{Method: "POST", Path: "/message:send", ID: "a2aSend", Title: "SendMessage", Body: &Body{Type: spec.SendMessageRequest{}, Examples: []Example{hello10}}, Answers: the("the task, or a message", spec.StreamResponse{})},
		{Method: "POST", Path: "/message:stream", ID: "a2aStream", Title: "SendStreamingMessage", Body: &Body{Type: spec.SendMessageRequest{}, Examples: []Example{hello10}}, Answers: stream},
		{Method: "GET", Path: "/extendedAgentCard", ID: "a2aExtendedCard", Title: "GetExtendedAgentCard", Answers: the("the card", spec.AgentCard{})},
		{
			Method: "GET", Path: "/tasks", ID: "a2aListTasks", Title: "ListTasks", Answers: the("a page of tasks", spec.ListTasksResponse{}),
			Params: []Param{
				{"contextId", "query", "of this context", text(), "a2a-1"},
				{"status", "query", "in this state", text(), "TASK_STATE_COMPLETED"},
				{"pageSize", "query", "tasks a page; 50", number(1, 100), 5},
				{"pageToken", "query", "nextPageToken of the page before", text(), nil},
				history,
				{"statusTimestampAfter", "query", "changed since", text("format", "date-time"), "2026-01-02T03:04:05Z"},
				{"includeArtifacts", "query", "with their artifacts", map[string]any{"type": "boolean"}, true},
			},
		},
		{Method: "GET", Path: "/tasks/{id}", ID: "a2aGetTask", Title: "GetTask", Params: []Param{history}, Answers: the("the task", spec.Task{})},
		{Method: "POST", Path: "/tasks/{id}:cancel", ID: "a2aCancel", Title: "CancelTask", Body: &Body{Type: map[string]any{"type": "object"}, Optional: true, Examples: []Example{{"empty", "Nothing is needed", `{}`}}}, Answers: the("the task", spec.Task{})},
		{Method: "GET", Path: "/tasks/{id}:subscribe", ID: "a2aSubscribe", Title: "SubscribeToTask", Params: []Param{lastEventID("where to go on from")}, Answers: stream},
		{Method: "POST", Path: "/tasks/{id}:subscribe", ID: "a2aSubscribePost", Title: "SubscribeToTask", Params: []Param{lastEventID("where to go on from")}, Body: &Body{Type: map[string]any{"type": "object"}, Optional: true, Examples: []Example{{"empty", "Nothing is needed", `{}`}}}, Answers: stream},
		{Method: "POST", Path: "/tasks/{id}/pushNotificationConfigs", ID: "a2aCreatePush", Title: "CreateTaskPushNotificationConfig", Body: &Body{Type: spec.PushConfig{}, Examples: []Example{{"url", "Where to send to", `{"url":"http://127.0.0.1:9/hook","token":"t"}`}}}, Answers: the("the configuration", spec.PushConfig{})},
		{Method: "GET", Path: "/tasks/{id}/pushNotificationConfigs", ID: "a2aListPush", Title: "ListTaskPushNotificationConfigs", Answers: the("the configurations", spec.ListPushConfigsResponse{})},
		{Method: "GET", Path: "/tasks/{id}/pushNotificationConfigs/{configId}", ID: "a2aGetPush", Title: "GetTaskPushNotificationConfig", Answers: the("the configuration", spec.PushConfig{})},
		{Method: "DELETE", Path: "/tasks/{id}/pushNotificationConfigs/{configId}", ID: "a2aDeletePush", Title: "DeleteTaskPushNotificationConfig", Answers: the("it is gone", map[string]any{"type": "object"})},
	}
	for i := range out {
		out[i].About = aboutA2A
		out[i].Params = append(out[i].Params, Param{"A2A-Version", "header", "without it a request is one of 0.3, which is served below /v0.3", text(), "1.0"})
		if out[i].Body != nil {
			out[i].Faults = a2aFaults(write...)
		} else {
			out[i].Faults = a2aFaults(read...)
		}
	}
	return out
}

// legacy is A2A 0.3, whose types are its own.
func legacy() []Operation {
	any03 := map[string]any{"type": "object", "description": "as A2A 0.3 has it"}
	wrong := []Fault{{Status: 0, Response: "A2A03Error"}}
	wrong = append(wrong, a2aFaults(401, 403, 429)...)
	for _, status := range []int{400, 404, 413, 500} {
		wrong = append(wrong, Fault{Status: status, Response: "A2A03Error"})
	}
	the := []Answer{{Status: 200, About: "as A2A 0.3 has it", Type: any03}}
	stream := []Answer{{Status: 200, About: "a stream, as A2A 0.3 has it", Media: "text/event-stream"}}
	body := &Body{Type: any03}
	rest := []Operation{
		{Method: "POST", Path: "/message:send", ID: "Send", Title: "message/send", Body: body, Answers: the},
		{Method: "POST", Path: "/message:stream", ID: "Stream", Title: "message/stream", Body: body, Answers: stream},
		{Method: "GET", Path: "/tasks", ID: "ListTasks", Title: "tasks/list", Answers: the},
		{Method: "GET", Path: "/tasks/{id}", ID: "GetTask", Title: "tasks/get", Answers: the},
		{Method: "POST", Path: "/tasks/{id}:cancel", ID: "Cancel", Title: "tasks/cancel", Body: &Body{Type: any03, Optional: true}, Answers: the},
		{Method: "GET", Path: "/tasks/{id}:subscribe", ID: "Subscribe", Title: "tasks/resubscribe", Answers: stream},
		{Method: "POST", Path: "/tasks/{id}:subscribe", ID: "SubscribePost", Title: "tasks/resubscribe", Body: &Body{Type: any03, Optional: true}, Answers: stream},
		{Method: "POST", Path: "/tasks/{id}/pushNotificationConfigs", ID: "CreatePush", Title: "tasks/pushNotificationConfig/set", Body: body, Answers: the},
		{Method: "GET", Path: "/tasks/{id}/pushNotificationConfigs", ID: "ListPush", Title: "tasks/pushNotificationConfig/list", Answers: the},
		{Method: "GET", Path: "/tasks/{id}/pushNotificationConfigs/{configId}", ID: "GetPush", Title: "tasks/pushNotificationConfig/get", Answers: the},
		{Method: "DELETE", Path: "/tasks/{id}/pushNotificationConfigs/{configId}", ID: "DeletePush", Title: "tasks/pushNotificationConfig/delete", Answers: the},
		{Method: "GET", Path: "/card", ID: "ExtendedCard", Title: "agent/getAuthenticatedExtendedCard", Answers: the},
	}
	var all []Operation
	for _, at := range []struct{ prefix, name, of string }{
		{"/v0.3", "", ""},
		{"/v0.3/agents/{tenant}", "OfAgent", " (of one agent)"},
		{"/a2a", "BelowA2A", ""},
		{"/a2a/agents/{tenant}", "BelowA2AOfAgent", " (of one agent)"},
	} {
		if strings.HasPrefix(at.prefix, "/v0.3") {
			all = append(all, Operation{
				Method: "POST", Path: at.prefix, ID: "a2a03RPC" + at.name, Tag: "a2a-0.3", Title: "A2A 0.3 over JSON-RPC" + at.of, Body: body, Faults: wrong,
				Answers: append(the, Answer{Status: 200, About: "for the methods that stream", Media: "text/event-stream"}),
			}, Operation{
				Method: "GET", Path: at.prefix + "/.well-known/agent-card.json", ID: "a2a03Card" + at.name, Tag: "a2a-0.3", Title: "The agent card" + at.of, Open: true, Params: []Param{ifChanged}, Faults: wrong,
				Answers: []Answer{{Status: 200, About: "the card", Type: any03, Headers: tagged}, {Status: 304, About: "you have it", Headers: tagged}},
			})
		}
		for _, o := range rest {
			o.Path, o.ID, o.Title, o.Tag, o.Faults = at.prefix+"/v1"+o.Path, "a2a03"+o.ID+at.name, o.Title+at.of, "a2a-0.3", wrong
			all = append(all, o)
		}
	}
	return all
}
