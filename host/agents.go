package host

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
)

// AgentCard is the A2A card of another agent that the server knows: its name,
// its address, what it can do.
type AgentCard struct {
	Name string
	URL  string
	Raw  json.RawMessage // the whole card, as it was given
}

// UnmarshalJSON reads any version of a card.
func (a *AgentCard) UnmarshalJSON(raw []byte) error {
	var w struct {
		Name string `json:"name"`
		URL  string `json:"url"`
	}
	if err := json.Unmarshal(raw, &w); err != nil {
		return err
	}
	*a = AgentCard{Name: w.Name, URL: w.URL, Raw: append(json.RawMessage(nil), raw...)}
	return nil
}

// MarshalJSON gives the whole card.
func (a AgentCard) MarshalJSON() ([]byte, error) {
	if len(a.Raw) > 0 {
		return a.Raw, nil
	}
	return json.Marshal(map[string]string{"name": a.Name, "url": a.URL})
}

// Agents lists the other agents that the server knows.
func (c *Client) Agents(ctx context.Context) ([]AgentCard, error) {
	var out struct {
		Agents []AgentCard `json:"agents"`
	}
	err := c.call(ctx, http.MethodGet, "/agents", nil, &out)
	return out.Agents, err
}

// RegisterAgent adds one by its card, of which the name and the URL are needed.
func (c *Client) RegisterAgent(ctx context.Context, card AgentCard) (a AgentCard, err error) {
	err = c.call(ctx, http.MethodPost, "/agents:register", card, &a)
	return a, err
}

// DiscoverAgent has the server fetch the card of an agent and add it. An
// address that it must not fetch is an *Error with the status 422, one that does
// not answer 502.
func (c *Client) DiscoverAgent(ctx context.Context, agentURL string) (a AgentCard, err error) {
	err = c.call(ctx, http.MethodPost, "/agents:discover", map[string]string{"url": agentURL}, &a)
	return a, err
}

// RemoveAgent takes one out of the list.
func (c *Client) RemoveAgent(ctx context.Context, name string) error {
	return c.call(ctx, http.MethodDelete, "/agents/"+url.PathEscape(name), nil, nil)
}

// RouteAgent has the server choose the agent for a prompt; tags are hints. 503:
// it knows none.
func (c *Client) RouteAgent(ctx context.Context, prompt string, tags ...string) (a AgentCard, err error) {
	if tags == nil {
		tags = []string{}
	}
	err = c.call(ctx, http.MethodPost, "/agents:route", map[string]any{"prompt": prompt, "hint_tags": tags}, &a)
	return a, err
}
