package events

import "encoding/json"

// Kinds of parts.
const (
	PartText  = "text"
	PartImage = "image"
	PartAudio = "audio"
	PartVideo = "video"
	PartFile  = "file"
	PartJSON  = "json"
)

// Part is a piece of a prompt or of a tool's result. Exactly one of Text,
// Data, URL, Path, JSON is set, as its type says.
type Part struct {
	Type     string          `json:"type"`
	Text     string          `json:"text,omitempty"`
	Name     string          `json:"name,omitempty"`
	MimeType string          `json:"mime_type,omitempty"`
	Data     string          `json:"data,omitempty"` // base64
	URL      string          `json:"url,omitempty"`
	Path     string          `json:"path,omitempty"`
	JSON     json.RawMessage `json:"json,omitempty"`
	ID       string          `json:"id,omitempty"` // attachments: the host's id, to send each once
}

// Text makes a text part.
func Text(s string) Part { return Part{Type: PartText, Text: s} }
