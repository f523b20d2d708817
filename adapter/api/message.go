package api

import (
	"bytes"
	"encoding/json"
	"strings"

	"innerd/events"
)

// Roles that mean something; any other word is kept as it is.
const (
	RoleUser      = "user"
	RoleAssistant = "assistant"
	RoleTool      = "tool"
	RoleSystem    = "system"
	RoleDeveloper = "developer"
)

// Message is one message of a host's history. Decoding takes whatever hosts
// have: content as a string, a list or null, tool calls flat or nested.
type Message struct {
	Role              string          `json:"role"`
	Content           string          `json:"content"` // the parts of a list joined by line ends
	Reasoning         string          `json:"reasoning_content,omitempty"`
	RedactedReasoning string          `json:"redacted_reasoning_content,omitempty"`
	Images            []Attachment    `json:"images,omitempty"`
	Files             []Attachment    `json:"files,omitempty"`
	Audio             []Attachment    `json:"audio,omitempty"`
	Videos            []Attachment    `json:"videos,omitempty"`
	ImageOutput       []Attachment    `json:"image_output,omitempty"`
	FileOutput        []Attachment    `json:"file_output,omitempty"`
	AudioOutput       []Attachment    `json:"audio_output,omitempty"`
	VideoOutput       []Attachment    `json:"video_output,omitempty"`
	ToolCalls         []ToolCall      `json:"tool_calls,omitempty"`
	ToolName          string          `json:"tool_name,omitempty"`
	ToolCallID        string          `json:"tool_call_id,omitempty"`
	ToolError         bool            `json:"tool_call_error,omitempty"`
	Summary           bool            `json:"is_summary,omitempty"`
	Citations         json.RawMessage `json:"citations,omitempty"`
}

// Attachment is a file that belongs to a message: exactly one of URL, FilePath
// and Content says where its bytes are.
type Attachment struct {
	Kind       string `json:"-"` // events.PartImage, PartFile, PartAudio, PartVideo
	URL        string `json:"url,omitempty"`
	FilePath   string `json:"filepath,omitempty"`
	Content    string `json:"content,omitempty"` // base64
	MimeType   string `json:"mime_type,omitempty"`
	ID         string `json:"id,omitempty"` // the host's; the same id is the same bytes
	AltText    string `json:"alt_text,omitempty"`
	Filename   string `json:"filename,omitempty"`
	Name       string `json:"name,omitempty"`
	Transcript string `json:"transcript,omitempty"`
	Format     string `json:"format,omitempty"`
	Size       int64  `json:"size,omitempty"`
}

// ToolCall is a call that an assistant message made.
type ToolCall struct {
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments,omitempty"` // JSON; text that is not JSON stands quoted
}

// UserText makes a message of the user.
func UserText(s string) Message { return Message{Role: RoleUser, Content: s} }

// AssistantText makes a message of the assistant.
func AssistantText(s string) Message { return Message{Role: RoleAssistant, Content: s} }

type wireMessage struct {
	Role              text          `json:"role"`
	Content           content       `json:"content"`
	Reasoning         content       `json:"reasoning_content"`
	RedactedReasoning text          `json:"redacted_reasoning_content"`
	Images            attachments   `json:"images"`
	Files             attachments   `json:"files"`
	Audio             attachments   `json:"audio"`
	Videos            attachments   `json:"videos"`
	ImageOutput       attachments   `json:"image_output"`
	FileOutput        attachments   `json:"file_output"`
	AudioOutput       attachments   `json:"audio_output"`
	VideoOutput       attachments   `json:"video_output"`
	ToolCalls         toolCalls     `json:"tool_calls"`
	ToolName          text          `json:"tool_name"`
	Name              text          `json:"name"`
	ToolCallID        text          `json:"tool_call_id"`
	ToolError         flag          `json:"tool_call_error"`
	Summary           flag          `json:"is_summary"`
	Citations         citationsWire `json:"citations"`
}

// UnmarshalJSON takes any JSON object; a field of an unexpected type counts as
// absent.
func (m *Message) UnmarshalJSON(raw []byte) error {
	if kind(raw) != '{' {
		return fieldErr("message", "must be an object, not %s", kindName(raw))
	}
	var w wireMessage
	if err := json.Unmarshal(raw, &w); err != nil {
		return err
	}
	*m = Message{
		Role: string(w.Role), Content: string(w.Content), Reasoning: string(w.Reasoning),
		RedactedReasoning: string(w.RedactedReasoning),
		Images:            w.Images.of(events.PartImage), Files: w.Files.of(events.PartFile),
		Audio: w.Audio.of(events.PartAudio), Videos: w.Videos.of(events.PartVideo),
		ImageOutput: w.ImageOutput.of(events.PartImage), FileOutput: w.FileOutput.of(events.PartFile),
		AudioOutput: w.AudioOutput.of(events.PartAudio), VideoOutput: w.VideoOutput.of(events.PartVideo),
		ToolCalls: w.ToolCalls, ToolName: string(w.ToolName), ToolCallID: string(w.ToolCallID),
		ToolError: bool(w.ToolError), Summary: bool(w.Summary), Citations: json.RawMessage(w.Citations),
	}
	if m.ToolName == "" && m.Role == RoleTool {
		m.ToolName = string(w.Name)
	}
	return nil
}

// content is text as a string, or a list of strings, {"text"} and {"content"}.
type content string

func (c *content) UnmarshalJSON(raw []byte) error {
	*c = content(strings.Join(contentParts(raw, nil, 0), "\n"))
	return nil
}

const maxContentDepth = 8 // hosts nest once; more is somebody playing

func contentParts(raw []byte, parts []string, depth int) []string {
	if depth > maxContentDepth {
		return parts
	}
	switch kind(raw) {
	case '[':
		for _, item := range looseList(raw) {
			parts = contentParts(item, parts, depth+1)
		}
	case '{':
		var o struct {
			Text    json.RawMessage `json:"text"`
			Content json.RawMessage `json:"content"`
		}
		if json.Unmarshal(raw, &o) != nil {
			return parts
		}
		if !absent(o.Text) {
			return contentParts(o.Text, parts, depth+1)
		}
		return contentParts(o.Content, parts, depth+1)
	default:
		if s := looseString(raw); s != "" {
			parts = append(parts, s)
		}
	}
	return parts
}

// attachments is a list of attachments, or a single one.
type attachments []Attachment

func (a *attachments) UnmarshalJSON(raw []byte) error {
	*a = nil
	var one attachmentWire
	switch kind(raw) {
	case '[':
		var l []attachmentWire
		if err := json.Unmarshal(raw, &l); err != nil {
			return err
		}
		for _, w := range l {
			if !w.empty() {
				*a = append(*a, Attachment(w))
			}
		}
	case '{', '"':
		if err := json.Unmarshal(raw, &one); err != nil {
			return err
		}
		if !one.empty() {
			*a = attachments{Attachment(one)}
		}
	}
	return nil
}

func (a attachments) of(kind string) []Attachment {
	for i := range a {
		a[i].Kind = kind
	}
	return a
}

type attachmentWire Attachment

func (w *attachmentWire) empty() bool { return w.URL == "" && w.FilePath == "" && w.Content == "" }

func (w *attachmentWire) UnmarshalJSON(raw []byte) error {
	*w = attachmentWire{}
	switch kind(raw) {
	case '"':
		w.URL = looseString(raw)
	case '{':
		var o struct {
			URL        text            `json:"url"`
			FilePath   text            `json:"filepath"`
			Content    text            `json:"content"`
			MimeType   text            `json:"mime_type"`
			ID         text            `json:"id"`
			AltText    text            `json:"alt_text"`
			Filename   text            `json:"filename"`
			Name       text            `json:"name"`
			Transcript text            `json:"transcript"`
			Format     text            `json:"format"`
			Size       json.RawMessage `json:"size"`
		}
		if err := json.Unmarshal(raw, &o); err != nil {
			return err
		}
		*w = attachmentWire{
			URL: string(o.URL), FilePath: string(o.FilePath), Content: string(o.Content), MimeType: string(o.MimeType),
			ID: string(o.ID), AltText: string(o.AltText), Filename: string(o.Filename), Name: string(o.Name),
			Transcript: string(o.Transcript), Format: string(o.Format), Size: int64(looseInt(o.Size)),
		}
	}
	return nil
}

// DefaultMimeType is what the bytes of an attachment are when nobody says.
func (a Attachment) DefaultMimeType() string {
	switch a.Kind {
	case events.PartImage:
		return "image/png"
	case events.PartAudio:
		return "audio/mpeg"
	case events.PartVideo:
		return "video/mp4"
	}
	return "application/octet-stream"
}

type toolCalls []ToolCall

func (t *toolCalls) UnmarshalJSON(raw []byte) error {
	*t = nil
	for _, item := range looseList(raw) {
		if c, ok := decodeToolCall(item); ok {
			*t = append(*t, c)
		}
	}
	return nil
}

// decodeToolCall reads {"id","name","arguments"} and the nested shape
// {"id","function":{"name","arguments"}}.
func decodeToolCall(raw []byte) (ToolCall, bool) {
	type flat struct {
		Name      text            `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		Input     json.RawMessage `json:"input"`
	}
	var o struct {
		ID text `json:"id"`
		flat
		ToolName text            `json:"tool_name"`
		Function json.RawMessage `json:"function"`
	}
	if kind(raw) != '{' || json.Unmarshal(raw, &o) != nil {
		return ToolCall{}, false
	}
	f := o.flat
	if kind(o.Function) == '{' {
		f = flat{}
		if json.Unmarshal(o.Function, &f) != nil {
			return ToolCall{}, false
		}
	}
	if f.Name == "" {
		f.Name = o.ToolName
	}
	if absent(f.Arguments) {
		f.Arguments = f.Input
	}
	return ToolCall{ID: string(o.ID), Name: string(f.Name), Arguments: arguments(f.Arguments)}, f.Name != ""
}

// arguments makes JSON of arguments that came as an object or as the text of
// one.
func arguments(raw json.RawMessage) json.RawMessage {
	if absent(raw) {
		return nil
	}
	if kind(raw) == '"' {
		s := bytes.TrimSpace([]byte(looseString(raw)))
		switch {
		case len(s) == 0:
			return nil
		case json.Valid(s):
			return s
		}
	}
	return raw
}

// citationsWire keeps an object as it came and drops everything else.
type citationsWire json.RawMessage

func (c *citationsWire) UnmarshalJSON(raw []byte) error {
	if k := kind(raw); k == '{' || k == '[' {
		*c = append((*c)[:0], raw...)
	}
	return nil
}
