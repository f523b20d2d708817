package api

import (
	"bytes"
	"encoding/json"
	"strings"

	"innerd/events"
)

// decode reads an object of valid JSON. What it keeps is no piece of it, so that
// a message does not hold a whole request. Of a name that is repeated the last
// counts.
func (m *Message) decode(raw []byte) {
	*m = Message{}
	var name []byte
	for w := walkIn(raw); w.next(); {
		switch v := w.val; string(fieldOf(w.key)) {
		case "role":
			m.Role = looseRole(v)
		case "content":
			m.Content = looseText(v)
		case "reasoning_content":
			m.Reasoning = looseText(v)
		case "redacted_reasoning_content":
			m.RedactedReasoning = looseString(v)
		case "images":
			m.Images = decodeAttachments(v, events.PartImage)
		case "files":
			m.Files = decodeAttachments(v, events.PartFile)
		case "audio":
			m.Audio = decodeAttachments(v, events.PartAudio)
		case "videos":
			m.Videos = decodeAttachments(v, events.PartVideo)
		case "image_output":
			m.ImageOutput = decodeAttachments(v, events.PartImage)
		case "file_output":
			m.FileOutput = decodeAttachments(v, events.PartFile)
		case "audio_output":
			m.AudioOutput = decodeAttachments(v, events.PartAudio)
		case "video_output":
			m.VideoOutput = decodeAttachments(v, events.PartVideo)
		case "tool_calls":
			m.ToolCalls = decodeToolCalls(v)
		case "tool_name":
			m.ToolName = looseString(v)
		case "name":
			name = v
		case "tool_call_id":
			m.ToolCallID = looseString(v)
		case "tool_call_error":
			m.ToolError = looseFlag(v)
		case "is_summary":
			m.Summary = looseFlag(v)
		case "citations":
			if k := kind(v); k == '{' || k == '[' { // anything else is dropped
				m.Citations = bytes.Clone(v)
			}
		}
	}
	if m.ToolName == "" && m.Role == RoleTool {
		m.ToolName = looseString(name)
	}
}

// looseRole is a role; the usual ones take no memory.
func looseRole(raw []byte) string {
	switch string(raw) {
	case `"user"`:
		return RoleUser
	case `"assistant"`:
		return RoleAssistant
	case `"tool"`:
		return RoleTool
	}
	return looseString(raw)
}

// looseText is text as a string, or a list of strings, {"text"} and {"content"},
// whose parts are joined by line ends.
func looseText(raw []byte) string {
	if k := kind(raw); k != '[' && k != '{' {
		return looseString(raw)
	}
	return strings.Join(contentParts(raw, nil, 0), "\n")
}

const maxContentDepth = 8 // hosts nest once; more is somebody playing

func contentParts(raw []byte, parts []string, depth int) []string {
	if depth > maxContentDepth {
		return parts
	}
	switch kind(raw) {
	case '[':
		for w := walkIn(raw); w.next(); {
			parts = contentParts(w.val, parts, depth+1)
		}
	case '{':
		var text, content []byte
		for w := walkIn(raw); w.next(); {
			switch string(fieldOf(w.key)) {
			case "text":
				text = w.val
			case "content":
				content = w.val
			}
		}
		if absent(text) {
			text = content
		}
		return contentParts(text, parts, depth+1)
	default:
		if s := looseString(raw); s != "" {
			parts = append(parts, s)
		}
	}
	return parts
}

// decodeAttachments reads a list of attachments, or a single one. Those that say
// nothing of where their bytes are count as absent.
func decodeAttachments(raw []byte, of string) (out []Attachment) {
	for _, item := range looseList(raw) {
		if a := decodeAttachment(item); a.URL != "" || a.FilePath != "" || a.Content != "" {
			a.Kind = of
			out = append(out, a)
		}
	}
	return out
}

// decodeAttachment reads an object or a URL.
func decodeAttachment(raw []byte) (a Attachment) {
	if kind(raw) == '"' {
		a.URL = looseString(raw)
		return a
	}
	if kind(raw) != '{' {
		return a
	}
	for w := walkIn(raw); w.next(); {
		switch v := w.val; string(fieldOf(w.key)) {
		case "url":
			a.URL = looseString(v)
		case "filepath":
			a.FilePath = looseString(v)
		case "content":
			a.Content = looseString(v)
		case "mime_type":
			a.MimeType = looseString(v)
		case "id":
			a.ID = looseString(v)
		case "alt_text":
			a.AltText = looseString(v)
		case "filename":
			a.Filename = looseString(v)
		case "name":
			a.Name = looseString(v)
		case "transcript":
			a.Transcript = looseString(v)
		case "format":
			a.Format = looseString(v)
		case "size":
			a.Size = int64(looseInt(v))
		}
	}
	return a
}

// decodeToolCalls reads a list of calls, or a single one. Those without a name
// count as absent.
func decodeToolCalls(raw []byte) (out []ToolCall) {
	for _, item := range looseList(raw) {
		if c := decodeToolCall(item); c.Name != "" {
			out = append(out, c)
		}
	}
	return out
}

// callFields are the fields of a call, as they came.
type callFields struct{ id, name, arguments, input, toolName, function []byte }

func (f *callFields) read(raw []byte) {
	for w := walkIn(raw); w.next(); {
		switch string(fieldOf(w.key)) {
		case "id":
			f.id = w.val
		case "name":
			f.name = w.val
		case "arguments":
			f.arguments = w.val
		case "input":
			f.input = w.val
		case "tool_name":
			f.toolName = w.val
		case "function":
			f.function = w.val
		}
	}
}

// decodeToolCall reads {"id","name","arguments"} and the nested shape
// {"id","function":{"name","arguments"}}.
func decodeToolCall(raw []byte) ToolCall {
	if kind(raw) != '{' {
		return ToolCall{}
	}
	var f callFields
	f.read(raw)
	said := f
	if kind(f.function) == '{' {
		said = callFields{}
		said.read(f.function)
	}
	c := ToolCall{ID: looseString(f.id), Name: looseString(said.name)}
	if c.Name == "" {
		c.Name = looseString(f.toolName)
	}
	if absent(said.arguments) {
		said.arguments = said.input
	}
	c.Arguments = arguments(said.arguments)
	return c
}

// arguments makes JSON of arguments that came as an object or as the text of
// one. It is no piece of raw.
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
	return bytes.Clone(raw)
}
