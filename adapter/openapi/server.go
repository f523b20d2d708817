package openapi

import (
	"strings"
	"time"

	"innerd/adapter/a2a/spec"
	"innerd/adapter/api"
)

func conversations() []Operation {
	one := []Answer{{
		Status: 200, About: "the conversation", Type: api.Conversation{},
		Example: `{"id":"01JZ0000000000000000000000","context_id":"chat-1","backend":"simulate","state":"cold","last_used":"2026-01-02T03:04:05.678Z"}`,
	}}
	none := fault(404, "not_found", "there is no such conversation of yours", "no such run")
	busy := conflict("a run is on", "a run is on")
	return []Operation{
		kept(Operation{
			Method: "GET", Path: "/conversations", ID: "listConversations", Tag: "conversations", Title: "Your conversations",
			Answers: []Answer{{Status: 200, About: "the conversations", Type: api.Conversations{}, Example: `{"conversations":[]}`}},
		}),
		kept(Operation{
			Method: "POST", Path: "/conversations/{id}:close", ID: "closeConversation", Tag: "conversations", Title: "End the agent of a conversation",
			About: "id is the server's, not the context_id.", Answers: one, Faults: []Fault{none, busy},
		}),
		kept(Operation{
			Method: "POST", Path: "/conversations/{id}:compact", ID: "compactConversation", Tag: "conversations", Title: "Have an agent shorten its memory",
			About:   "Answers when it has; that takes a request to the model. It goes on when you hang up.",
			Answers: one,
			Faults: []Fault{
				none, busy, conflict("the agent knows nothing yet, or its directory is gone", "conflict"), canceled,
				stopping, agentCan, agentHas,
				fault(503, "rate_limit", "the model's provider refuses work until Retry-After", "*runs.LimitedError"),
			},
		}),
	}
}

// bare is an operation that needs no key and is asked under any name.
func bare(o Operation) Operation {
	o.Open = true
	o.Faults = append([]Fault{badVersion, broken}, o.Faults...)
	return o
}

var (
	tagged    = map[string]string{"ETag": "of the document", "Cache-Control": "how long it may be kept"}
	ifChanged = Param{"If-None-Match", "header", "an ETag that you have", text(), nil}
)

func server() []Operation {
	all := []Operation{bare(Operation{
		Method: "GET", Path: "/health", ID: "health", Tag: "server", Title: "The server lives",
		Answers: []Answer{{Status: 200, About: "from the first moment on", Type: api.Health{}, Example: `{"status":"ok","version":"0.1.0","backends":{"simulate":{"usable":true}}}`}},
	}), bare(Operation{
		Method: "GET", Path: "/ready", ID: "ready", Tag: "server", Title: "The server takes runs",
		Answers: []Answer{
			{Status: 200, About: "it does", Type: api.Ready{}, Example: `{"ready":true}`},
			{Status: 503, About: "it does not, and why", Type: api.Ready{}, Example: `{"ready":false,"reasons":["the server is still starting"]}`},
		},
	}), {
		Method: "GET", Path: "/.well-known/agent-card.json", ID: "agentCard", Tag: "server", Title: "The A2A agent card", Open: true,
		Params: []Param{ifChanged},
		Answers: []Answer{
			{Status: 200, About: "the card of all agents here", Type: spec.AgentCard{}, Headers: tagged},
			{Status: 304, About: "you have it", Headers: tagged},
		},
		Faults: a2aFaults(403, 429, 500, 503),
	}}
	for _, doc := range []struct{ path, id, title string }{
		{"/openapi.json", "openapi", "This document"},
		{"/schemas/events.json", "eventSchema", "JSON Schema of the events of runs"},
	} {
		all = append(all, kept(Operation{
			Method: "GET", Path: doc.path, ID: doc.id, Tag: "server", Title: doc.title, Params: []Param{ifChanged},
			Answers: []Answer{
				{Status: 200, About: "the document", Type: map[string]any{"type": "object"}, Headers: tagged},
				{Status: 304, About: "you have it", Headers: tagged},
			},
		}))
	}
	return append(all, []Operation{
		kept(Operation{
			Method: "GET", Path: "/backends", ID: "listBackends", Tag: "server", Title: "The agents, and whether they can run",
			Answers: []Answer{{Status: 200, About: "the agents", Type: api.Backends{}}},
		}),
		kept(Operation{
			Method: "GET", Path: "/metrics", ID: "metrics", Tag: "server", Title: "Metrics for Prometheus",
			About:   "Figures of the whole server, as docs/observability.md lists them. They name no run, no caller and nothing that one has said. A server that was started with --open-metrics asks for no key.",
			Answers: []Answer{{Status: 200, About: "the metrics", Type: text(), Media: "text/plain"}},
		}),
		kept(Operation{
			Method: "GET", Path: "/debug/streams", ID: "debugStreams", Tag: "server", Title: "Your open streams and runs",
			About:   "A server that was started with --open-debug asks for no key; who sends none sees the figures of the whole server alone.",
			Answers: []Answer{{Status: 200, About: "the streams, and what was noticed of the agents", Type: api.Streams{}, Example: `{"active_streams":{},"stream_count":0,"server_uptime":1.5,"backends":{},"runs":{}}`}},
		}),
		profile("/debug/pprof", "profiles", "What net/http/pprof has", "text/html"),
		profile("/debug/pprof/{profile}", "profile", "A profile of net/http/pprof", "application/octet-stream", "text/plain"),
		initOperation(),
	}...)
}

// profile is an operation that is there with --pprof alone.
func profile(path, id, title string, media ...string) Operation {
	o := Operation{
		Method: "GET", Path: path, ID: id, Tag: "server", Title: title,
		About:  "Only with --pprof. --open-debug asks for no key.",
		Faults: []Fault{fault(404, "not_found", "there is no such profile, or no --pprof")},
	}
	for _, m := range media {
		o.Answers = append(o.Answers, Answer{Status: 200, About: "as " + m, Type: text(), Media: m})
	}
	if strings.Contains(path, "{") {
		o.Faults = append(o.Faults,
			Fault{Status: 400, When: "seconds and debug at once, as text", Text: true},
			Fault{Status: 500, When: "another profile is being made, as text", Text: true})
		o.Params = []Param{
			{"seconds", "query", "how long, for profile and trace", number(1, 0), 1},
			{"debug", "query", "1: as text", number(0, 2), nil},
		}
	}
	return kept(o)
}

// Init is the body of POST /init. It is compared with the one that is read.
type Init struct {
	Keys        []string                   `json:"keys"`                  // secret or name:secret; at least one
	Env         map[string]string          `json:"env,omitempty"`         // of agents
	Credentials map[string]api.Credentials `json:"credentials,omitempty"` // by agent
	Workspace   string                     `json:"workspace,omitempty"`   // an absolute directory that exists
	Now         time.Time                  `json:"now,omitzero"`          // the caller's clock
}

func initOperation() Operation {
	return Operation{
		Method: "POST", Path: "/init", ID: "init", Tag: "server", Title: "Give a server that waits its keys",
		About: "Only on a server that was started with --init-key-file, INNERD_INIT_KEY or --await-init: with the bootstrap key as its key, or, without one, on the socket in the state directory alone. It is taken once. Any other server answers 404.",
		Body:  &Body{Type: Init{}, Examples: []Example{{"keys", "Keys and credentials", `{"keys":["host:s3cret"],"env":{"LANG":"C.UTF-8"},"credentials":{"claude-code":{"api_key":"dummy"}},"now":"2026-01-31T12:00:00Z"}`}}},
		Answers: []Answer{{Status: 200, About: "it is taken; ready follows soon", Type: map[string]any{
			"type": "object", "required": []string{"status"},
			"properties": map[string]any{
				"status":        map[string]any{"const": "ok"},
				"clock_skew_ms": map[string]any{"type": "integer", "description": "by how much this machine's clock is ahead of now"},
			},
		}, Example: `{"status":"ok","clock_skew_ms":-12}`}},
		Faults: []Fault{
			fault(400, "invalid_request", "the body is not JSON, or a field is wrong or unknown; it can be sent again"),
			fault(401, "unauthorized", "the bootstrap key is missing or wrong"),
			fault(409, "conflict", "the server has been configured"),
			fault(413, "too_large", "the body is over 1 MiB"),
			fault(403, "unauthorized", refused.When),
			fault(404, "not_found", "the server did not wait for it"),
		},
	}
}
