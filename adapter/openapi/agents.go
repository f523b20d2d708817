package openapi

import "encoding/json"

// Agents is the answer of GET /agents.
type Agents struct {
	Agents []json.RawMessage `json:"agents"`
}

// Discover is the body of /agents:discover.
type Discover struct {
	URL string `json:"url"` // of a card, or of what it is the card of
}

// Route is the body of /agents:route.
type Route struct {
	Prompt string   `json:"prompt,omitempty"`
	Tags   []string `json:"hint_tags,omitempty"`
}

const exampleCard = `{"name":"cook","url":"https://cook.example/a2a","description":"Cooks.","tags":["food"]}`

// list is an operation on the cards of other agents.
func list(o Operation) Operation {
	o.Tag = "agents"
	o.Faults = append([]Fault{noKey, refused, tooMany, fault(500, "internal", "the list could not be written", "*")}, o.Faults...)
	if o.Body != nil {
		o.Faults = append(o.Faults,
			fault(400, "invalid_request", "the body is not JSON", "the body is not JSON"),
			fault(413, "too_large", "the body is longer than 2 MiB", "*http.MaxBytesError"),
			fault(422, "invalid_request", "name or url is missing or cannot be taken", "invalid agent", "unsafe URL"),
		)
	}
	return o
}

func agents() []Operation {
	card := map[string]any{
		"type": "object", "required": []string{"name", "url"}, "description": "a card of an agent, as it was given",
		"properties": map[string]any{"name": text(), "url": text(), "description": text(), "tags": map[string]any{"type": "array", "items": text()}},
	}
	the := func(about string) []Answer {
		return []Answer{{Status: 200, About: about, Type: card, Example: exampleCard}}
	}
	full := conflict("1,000 agents or 16 MiB of cards are there", "the registry is full")
	return []Operation{
		list(Operation{
			Method: "GET", Path: "/agents", ID: "listAgents", Title: "Cards of other agents",
			Answers: []Answer{{Status: 200, About: "the cards as they were given, by name", Type: Agents{}, Example: `{"agents":[` + exampleCard + `]}`}},
		}),
		list(Operation{
			Method: "POST", Path: "/agents:register", ID: "registerAgent", Title: "Add a card",
			Body:    &Body{Type: card, Examples: []Example{{"card", "A card", exampleCard}}},
			Answers: the("the card"), Faults: []Fault{full},
		}),
		list(Operation{
			Method: "POST", Path: "/agents:discover", ID: "discoverAgent", Title: "Fetch a card and add it",
			Body:    &Body{Type: Discover{}, Examples: []Example{{"url", "The URL of an agent", `{"url":"https://cook.example"}`}}},
			Answers: the("the card"),
			Faults:  []Fault{full, fault(502, "backend_unavailable", "no card came", "the agent's card could not be fetched")},
		}),
		list(Operation{
			Method: "POST", Path: "/agents:route", ID: "routeAgent", Title: "Choose the agent for a prompt",
			Body:    &Body{Type: Route{}, Examples: []Example{{"prompt", "A prompt", `{"prompt":"What is for dinner?","hint_tags":["food"]}`}}},
			Answers: the("the card of the agent to ask"),
			Faults:  []Fault{fault(503, "backend_unavailable", "no agents are registered", "no agents are registered")},
		}),
		list(Operation{
			Method: "DELETE", Path: "/agents/{name}", ID: "removeAgent", Title: "Forget a card",
			Answers: []Answer{{Status: 204, About: "it is gone"}},
			Faults:  []Fault{fault(404, "not_found", "there is no such agent", "no such agent")},
		}),
	}
}
