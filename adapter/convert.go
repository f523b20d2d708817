package adapter

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"net/url"
	"strings"
	"time"

	"innerd/adapter/api"
	"innerd/backends"
	"innerd/events"
	"innerd/runs"
	"innerd/runs/history"
)

// decodeSpec reads the body of /message:* and makes the run that it asks for.
func decodeSpec(body []byte) (*api.Request, runs.Spec, error) {
	h := api.NewHollow(body)
	req, err := h.Decode()
	if err != nil {
		return nil, runs.Spec{}, badBody(err)
	}
	if ofA2A(req, h) {
		return nil, runs.Spec{}, &backends.FieldError{Field: "messages", Reason: "is missing, and message is A2A's, which is served below /a2a; its card is at /.well-known/agent-card.json"}
	}
	return req, specOf(req, h), nil
}

// ofA2A reports whether a request asks nothing here and something in A2A, whose
// paths at the server's root are the same: a run would fail and not say why.
func ofA2A(req *api.Request, h *api.Hollow) bool {
	if len(req.Messages) > 0 || strings.TrimSpace(req.Metadata.Query) != "" {
		return false
	}
	var body struct {
		Message struct{ Parts []json.RawMessage }
	}
	_ = json.Unmarshal(h.Body(), &body) // what is of another type is not A2A
	return len(body.Message.Parts) > 0
}

// specOf is the run that a request asks for. h is the request as it came.
func specOf(req *api.Request, h *api.Hollow) runs.Spec {
	m := &req.Metadata
	spec := runs.Spec{
		Messages: messagesOf(req), TaskID: m.TaskID, Request: h.Stored(),
		Backend: m.Backend, Source: m.Source, Detach: m.Detach, OnBusy: m.OnBusy,
		Timeout: duration(m.TimeoutS), InputTimeout: duration(m.InputTimeoutS),
		FreshSession:  m.ContextReuse != nil && !*m.ContextReuse,
		ToolCallLimit: m.ToolCallLimit, MaxCostUSD: m.MaxCostUSD,
		Settings: settingsOf(req), Dir: m.Cwd, AddDirs: m.AddDirs, Env: m.Env,
		NoProjectDocs: m.ProjectInstructions != nil && !*m.ProjectInstructions,
		Notes:         m.Notes,
	}
	if m.TaskID != "" { // a host may come back with it
		spec.BodyHash = h.Hash()
	}
	if !req.OwnContext() {
		spec.ContextID = req.ContextID
	}
	if m.DetachGraceS != nil {
		spec.DetachGrace = max(duration(*m.DetachGraceS), 1) // 0 would be the default
	}
	if c := m.Credentials; c != nil {
		spec.Credential = &backends.Credential{Key: c.APIKey, BaseURL: c.BaseURL, Model: c.Model, Provider: c.Provider}
	}
	return spec
}

func settingsOf(req *api.Request) backends.Settings {
	m := &req.Metadata
	set := backends.Settings{
		Model: m.Model, Effort: m.ReasoningEffort, ThinkingTokens: m.ThinkingTokens, System: m.System,
		ToolChoice: m.ToolChoice, Schema: m.ResponseFormat, Permission: m.PermissionMode, Interactive: m.Interactive,
		MaxTurns: m.MaxTurns, Background: m.Background, Options: m.AgentOptions,
	}
	if set.System == "" {
		set.System = systemOf(req.Messages)
	}
	for _, t := range m.Tools {
		set.Tools = append(set.Tools, backends.Tool{
			Name: t.Name, Description: t.Description, Schema: t.Parameters, Parallel: !t.Serial,
		})
	}
	return set
}

// systemOf is what the messages of system and developer say, for requests
// without a system message of their own.
func systemOf(list []api.Message) string {
	var parts []string
	for _, m := range list {
		if (m.Role == api.RoleSystem || m.Role == api.RoleDeveloper) && strings.TrimSpace(m.Content) != "" {
			parts = append(parts, m.Content)
		}
	}
	return strings.Join(parts, "\n\n")
}

// duration is a number of seconds; a very large one is a very long time.
func duration(s float64) time.Duration {
	const most = float64(math.MaxInt64 / int64(time.Second) / 2)
	return time.Duration(min(s, most) * float64(time.Second))
}

func messagesOf(req *api.Request) []history.Message {
	out := make([]history.Message, 0, len(req.Messages)+1)
	prompted := false
	for _, m := range req.Messages {
		prompted = prompted || m.Role == api.RoleUser
		out = append(out, messageOf(m))
	}
	if q := req.Metadata.Prompt(); !prompted && strings.TrimSpace(req.Metadata.Query) != "" {
		out = append(out, history.Message{Role: api.RoleUser, Text: q})
	}
	return out
}

func messageOf(m api.Message) history.Message {
	out := history.Message{
		Role: m.Role, Text: m.Content, Reasoning: m.Reasoning,
		ToolName: m.ToolName, ToolCallID: m.ToolCallID, ToolError: m.ToolError, Summary: m.Summary,
	}
	for _, c := range m.ToolCalls {
		out.ToolCalls = append(out.ToolCalls, history.ToolCall(c))
	}
	for _, l := range [][]api.Attachment{
		m.Images, m.Files, m.Audio, m.Videos, m.ImageOutput, m.FileOutput, m.AudioOutput, m.VideoOutput,
	} {
		for _, a := range l {
			if p := partOf(a); p.Data != "" || p.Path != "" || p.URL != "" { // a file of no bytes is none
				out.Attachments = append(out.Attachments, p)
			}
			// No agent here hears; but an assistant's text is compared with
			// what the agent said, and stays as it is.
			if a.Transcript != "" && m.Role != api.RoleAssistant {
				out.Text = strings.TrimLeft(out.Text+"\n["+a.Kind+" transcript: "+a.Transcript+"]", "\n")
			}
		}
	}
	return out
}

func partOf(a api.Attachment) events.Part {
	p := events.Part{Type: a.Kind, Name: a.Name, MimeType: a.MimeType, ID: a.ID}
	for _, name := range []string{a.Filename, a.AltText} {
		if p.Name == "" {
			p.Name = name
		}
	}
	switch {
	case a.Content != "":
		mime, data, inline := dataURL(a.Content)
		if !inline {
			data = base64Of(a.Content, a.Kind)
		}
		p.Data, p.MimeType = data, first(p.MimeType, mime, a.DefaultMimeType())
	case a.FilePath != "":
		p.Path, p.MimeType = a.FilePath, first(p.MimeType, a.DefaultMimeType())
	default:
		if mime, data, ok := dataURL(a.URL); ok {
			p.Data, p.MimeType = data, first(p.MimeType, mime, a.DefaultMimeType())
			break
		}
		p.URL = a.URL
		if a.Kind != events.PartFile { // what loads a file also learns its type
			p.MimeType = first(p.MimeType, a.DefaultMimeType())
		}
	}
	return p
}

func first(words ...string) string {
	for _, w := range words {
		if w != "" {
			return w
		}
	}
	return ""
}

// dataURL reads data:[type][;base64],…
func dataURL(s string) (mime, data string, ok bool) {
	if len(s) < 5 || !strings.EqualFold(s[:5], "data:") {
		return "", "", false
	}
	head, body, found := strings.Cut(s[5:], ",")
	if !found {
		return "", "", false
	}
	mime, params, _ := strings.Cut(head, ";")
	if strings.HasSuffix(";"+params, ";base64") {
		return mime, base64Of(body, ""), true
	}
	plain, err := url.PathUnescape(body)
	if err != nil {
		plain = body
	}
	return mime, base64.StdEncoding.EncodeToString([]byte(plain)), true
}

// base64Of makes standard base64 of what hosts send: with line ends, without
// padding, of the URL's alphabet, and for files also the bare text.
func base64Of(s, kind string) string {
	if _, err := base64.StdEncoding.DecodeString(s); err == nil && !strings.ContainsAny(s, "\r\n") {
		return s
	}
	clean := strings.NewReplacer("\n", "", "\r", "", " ", "", "-", "+", "_", "/", "=", "").Replace(s)
	if _, err := base64.RawStdEncoding.DecodeString(clean); err != nil {
		if kind == events.PartFile {
			return base64.StdEncoding.EncodeToString([]byte(s))
		}
		return s
	}
	return clean + strings.Repeat("=", -len(clean)&3)
}
