package api_test

import (
	"encoding/json"
	"fmt"
	"slices"

	"innerd/adapter/api"
)

// decode reads a metadata object; null and unknown keys are nothing.
func (m *refMetadata) decode(raw json.RawMessage) error {
	*m = refMetadata{}
	if refAbsent(raw) {
		return nil
	}
	var o map[string]json.RawMessage
	if refKind(raw) != '{' {
		return refFieldErr("metadata", "must be an object, not %s", refKindName(raw))
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		return err
	}
	m.decodeLoose(o)
	return m.decodeStrict(o)
}

func (m *refMetadata) decodeLoose(o map[string]json.RawMessage) {
	m.Model = refLooseString(o["model"])
	m.ToolCallLimit = refLooseInt(o["tool_call_limit"])
	if !refAbsent(o["tool_choice"]) {
		m.ToolChoice = o["tool_choice"]
	}
	m.ContextReuse = refLooseBool(o["context_reuse"])
	m.Tools, m.Notes = refDecodeTools(o["native_tool_schemas"])
	m.System = refLooseText(o["system_message"])
	m.Source = refLooseString(o["source"])
	m.ThinkingTokens = refLooseInt(o["thinking_tokens"])
	m.Query = refLooseText(o["query"])
	m.Context = refLooseText(o["context"])
	if k := refKind(o["context"]); k == '{' {
		m.Context = string(o["context"])
	}
}

// looseText is a text that may have the shapes of a message's content.
func refLooseText(raw []byte) string {
	if refAbsent(raw) {
		return ""
	}
	var c refContent
	if c.UnmarshalJSON(raw) != nil {
		return ""
	}
	return string(c)
}

// decodeStrict reads the newer fields; the first fault ends it.
func (m *refMetadata) decodeStrict(o map[string]json.RawMessage) error {
	s := refStrict{fields: o}
	m.Backend = s.string("backend")
	m.TaskID = s.string("task_id")
	if m.TaskID != "" && !api.ValidTaskID(m.TaskID) || m.TaskID == "" && refKind(o["task_id"]) == '"' {
		s.fail("task_id", "must be 8 to 64 of the characters A-Z a-z 0-9 _ -")
	}
	m.Detach = s.bool("detach")
	if !refAbsent(o["detach_grace_s"]) {
		grace := s.number("detach_grace_s")
		m.DetachGraceS = &grace
	}
	m.OnBusy = s.oneOf("on_busy", api.BusyQueue, api.BusyReject, api.BusyCancel)
	m.TimeoutS = s.number("timeout_s")
	m.InputTimeoutS = s.number("input_timeout_s")
	m.PermissionMode = s.oneOf("permission_mode", api.PermissionAuto, api.PermissionAsk, api.PermissionDeny)
	m.Interactive = s.bool("interactive")
	m.Events = s.events("events")
	m.ResponseFormat = s.object("response_format")
	m.MaxTurns = s.count("max_turns")
	m.Cwd = s.string("cwd")
	m.AddDirs = s.strings("add_dirs")
	m.Env = s.env("env")
	m.ReasoningEffort = s.string("reasoning_effort")
	m.Credentials = s.credentials("credentials")
	m.MaxCostUSD = s.number("max_cost_usd")
	m.Background = s.oneOf("background", api.BackgroundEnd, api.BackgroundWait)
	if !refAbsent(o["project_instructions"]) {
		use := s.bool("project_instructions")
		m.ProjectInstructions = &use
	}
	m.AgentOptions = s.object("agent_options")
	return s.err
}

var refEmptySchema = json.RawMessage(`{"type":"object","properties":{}}`)

// decodeTools reads native_tool_schemas. A tool that can't be used is left
// out, and a note says so.
func refDecodeTools(raw json.RawMessage) (tools []api.Tool, notes []string) {
	if refAbsent(raw) {
		return nil, nil
	}
	if refKind(raw) != '[' {
		return nil, []string{"native_tool_schemas left out: it is " + refKindName(raw) + ", not a list"}
	}
	seen := map[string]bool{}
	for i, item := range refLooseList(raw) {
		t, err := refDecodeTool(item)
		switch {
		case err != nil && t.Name != "":
			notes = append(notes, fmt.Sprintf("tool %q left out: %v", t.Name, err))
		case err != nil:
			notes = append(notes, fmt.Sprintf("native_tool_schemas[%d] left out: %v", i, err))
		case seen[t.Name]:
			notes = append(notes, fmt.Sprintf("tool %q left out: its name is repeated", t.Name))
		default:
			seen[t.Name] = true
			tools = append(tools, t)
		}
	}
	return tools, notes
}

// decodeTool reads {"name","description","parameters"} (also "input_schema"
// and "inputSchema") and {"type":"function","function":{…}}.
func refDecodeTool(raw json.RawMessage) (api.Tool, error) {
	type flat struct {
		Name        json.RawMessage `json:"name"`
		Description refText         `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
		InputSchema json.RawMessage `json:"input_schema"`
		MCPSchema   json.RawMessage `json:"inputSchema"`
		Parallel    json.RawMessage `json:"parallel"`
	}
	var o struct {
		flat
		Function json.RawMessage `json:"function"`
	}
	if refKind(raw) != '{' {
		return api.Tool{}, fmt.Errorf("it is %s, not an object", refKindName(raw))
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		return api.Tool{}, err
	}
	f := o.flat
	if refKind(o.Function) == '{' {
		f = flat{Parallel: o.Parallel}
		if err := json.Unmarshal(o.Function, &f); err != nil {
			return api.Tool{}, err
		}
	}
	t := api.Tool{Description: string(f.Description)}
	if refKind(f.Name) == '"' {
		t.Name = refLooseString(f.Name)
	}
	if t.Name == "" {
		return t, fmt.Errorf("it has no name")
	}
	for _, s := range []json.RawMessage{f.Parameters, f.InputSchema, f.MCPSchema} {
		if !refAbsent(s) {
			t.Parameters = s
			break
		}
	}
	if t.Parameters == nil {
		t.Parameters = refEmptySchema
	}
	parallel, err := refCheckSchema(t.Parameters)
	if own := refLooseBool(f.Parallel); own != nil {
		parallel = *own
	}
	t.Serial = !parallel
	return t, err
}

// checkSchema says what is wrong with a schema of arguments, as far as it can
// be seen without compiling it, and whether it allows parallel calls.
func refCheckSchema(raw json.RawMessage) (parallel bool, err error) {
	if refKind(raw) != '{' {
		return true, fmt.Errorf("its schema is %s, not an object", refKindName(raw))
	}
	var s map[string]json.RawMessage
	if err := json.Unmarshal(raw, &s); err != nil {
		return true, err
	}
	if t := s["type"]; !refAbsent(t) {
		var names []string
		for _, n := range refLooseList(t) {
			names = append(names, refLooseString(n))
		}
		if !slices.Contains(names, "object") {
			return true, fmt.Errorf("its schema has the type %s, not \"object\"", t)
		}
	}
	if p := s["properties"]; !refAbsent(p) && refKind(p) != '{' {
		return true, fmt.Errorf("its schema's properties are %s, not an object", refKindName(p))
	}
	if p := refLooseBool(s["parallel"]); p != nil {
		return *p, nil
	}
	return true, nil
}

// tooMany is the fault of a body with more values. It counts the commas and
// the opened lists and objects outside of strings, and leaves it to the
// decoder to find out whether the body is JSON at all.
func refTooMany(field string, body []byte) error {
	n, quoted := 1, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == ',', c == '[', c == '{':
			n++
		}
	}
	if n > api.MaxValues {
		return refFieldErr(field, "has more than %d JSON values", api.MaxValues)
	}
	return nil
}
