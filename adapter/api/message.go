package api

import (
	"encoding/json"

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

// UnmarshalJSON takes any JSON object; a field of an unexpected type counts as
// absent.
func (m *Message) UnmarshalJSON(raw []byte) error {
	if kind(raw) != '{' {
		return fieldErr("message", "must be an object, not %s", kindName(raw))
	}
	if err := syntaxError(raw); err != nil {
		return err
	}
	m.decode(raw)
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
