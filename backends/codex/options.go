package codex

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"innerd/backends"
)

// options are the keys of agent_options that this agent has.
type options struct {
	// ReasoningSummary is how the model's reasoning is told: auto (also ""),
	// concise, detailed, none. Some providers refuse all but none.
	ReasoningSummary string `json:"reasoning_summary"`
	// WebSearch is the model's own search: live, indexed, cached, disabled. "": as
	// codex has it, but disabled where permissions are asked for, since it never asks.
	WebSearch string `json:"web_search"`
	// Tools is the road of the host's tools: dynamic (also ""), mcp.
	Tools string `json:"tools"`
}

func parseOptions(raw json.RawMessage) (options, error) {
	var o options
	if len(raw) == 0 || string(raw) == "null" {
		return o, nil
	}
	const field = "metadata.agent_options"
	d := json.NewDecoder(bytes.NewReader(raw))
	if err := d.Decode(&o); err != nil {
		return o, &backends.FieldError{Field: field, Reason: err.Error()}
	}
	for _, w := range []struct {
		key, value string
		words      []string
	}{
		{"reasoning_summary", o.ReasoningSummary, []string{"auto", "concise", "detailed", "none"}},
		{"web_search", o.WebSearch, []string{"live", "indexed", "cached", "disabled"}},
		{"tools", o.Tools, []string{"dynamic", "mcp"}},
	} {
		if w.value != "" && !slices.Contains(w.words, w.value) {
			return o, &backends.FieldError{Field: field + "." + w.key, Reason: "not one of " + strings.Join(w.words, ", ")}
		}
	}
	return o, nil
}

func isObject(js json.RawMessage) bool {
	var m map[string]json.RawMessage
	return json.Unmarshal(js, &m) == nil && m != nil
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
