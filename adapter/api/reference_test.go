package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"innerd/adapter/api"
	"innerd/events"
)

// What follows, and what stands in the other files of this name, is the decoder
// that this package had when each level decoded the next one by encoding/json.
// It stays as what a request means: FuzzSame compares with it.

type (
	refOneMessage api.Message
	refMetadata   api.Metadata
	refRequest    api.Request
)

func refFieldErr(field, format string, args ...any) error {
	return &api.FieldError{Field: field, Reason: fmt.Sprintf(format, args...)}
}

func (r *refRequest) decode(body []byte) error {
	if len(body) == 0 {
		return fmt.Errorf("the body is empty")
	}
	if err := refTooMany("body", body); err != nil {
		return err
	}
	if k := refKind(body); k != '{' && k != 0 && json.Valid(body) {
		return refFieldErr("body", "must be an object, not %s", refKindName(body))
	}
	var w struct {
		ContextID json.RawMessage `json:"context_id"`
		Messages  refMessages     `json:"messages"`
		Metadata  json.RawMessage `json:"metadata"`
	}
	if err := json.Unmarshal(body, &w); err != nil {
		return err
	}
	if w.Messages.fault != nil {
		return w.Messages.fault
	}
	*r = refRequest{Messages: w.Messages.list}
	id, err := refOptString("context_id", w.ContextID)
	if err != nil {
		return err
	}
	if len(id) > api.MaxContextID {
		return refFieldErr("context_id", "is %d bytes long, at most %d are allowed", len(id), api.MaxContextID)
	}
	r.ContextID = id
	return (*refMetadata)(&r.Metadata).decode(w.Metadata)
}

// messages remembers a fault instead of returning it, so that its place in the
// list can be named.
type refMessages struct {
	list  []api.Message
	fault error
}

func (m *refMessages) UnmarshalJSON(raw []byte) error {
	*m = refMessages{}
	switch refKind(raw) {
	case 'n':
		return nil
	case '[':
	default:
		m.fault = refFieldErr("messages", "must be a list, not %s", refKindName(raw))
		return nil
	}
	var l []refMessage
	if err := json.Unmarshal(raw, &l); err != nil {
		return err
	}
	for i, w := range l {
		switch {
		case w.bad != "":
			m.fault = refFieldErr(fmt.Sprintf("messages[%d]", i), "must be an object, not %s", w.bad)
			return nil
		case w.msg != nil:
			m.list = append(m.list, api.Message(*w.msg))
		}
	}
	return nil
}

type refMessage struct {
	msg *refOneMessage
	bad string
}

func (m *refMessage) UnmarshalJSON(raw []byte) error {
	switch refKind(raw) {
	case 'n':
		return nil
	case '{':
		m.msg = &refOneMessage{}
		return m.msg.UnmarshalJSON(raw)
	}
	m.bad = refKindName(raw)
	return nil
}

type refWireMessage struct {
	Role              refText          `json:"role"`
	Content           refContent       `json:"content"`
	Reasoning         refContent       `json:"reasoning_content"`
	RedactedReasoning refText          `json:"redacted_reasoning_content"`
	Images            refAttachments   `json:"images"`
	Files             refAttachments   `json:"files"`
	Audio             refAttachments   `json:"audio"`
	Videos            refAttachments   `json:"videos"`
	ImageOutput       refAttachments   `json:"image_output"`
	FileOutput        refAttachments   `json:"file_output"`
	AudioOutput       refAttachments   `json:"audio_output"`
	VideoOutput       refAttachments   `json:"video_output"`
	ToolCalls         refToolCalls     `json:"tool_calls"`
	ToolName          refText          `json:"tool_name"`
	Name              refText          `json:"name"`
	ToolCallID        refText          `json:"tool_call_id"`
	ToolError         refFlag          `json:"tool_call_error"`
	Summary           refFlag          `json:"is_summary"`
	Citations         refCitationsWire `json:"citations"`
}

// UnmarshalJSON takes any JSON object; a field of an unexpected type counts as
// absent.
func (m *refOneMessage) UnmarshalJSON(raw []byte) error {
	if refKind(raw) != '{' {
		return refFieldErr("message", "must be an object, not %s", refKindName(raw))
	}
	var w refWireMessage
	if err := json.Unmarshal(raw, &w); err != nil {
		return err
	}
	*m = refOneMessage{
		Role: string(w.Role), Content: string(w.Content), Reasoning: string(w.Reasoning),
		RedactedReasoning: string(w.RedactedReasoning),
		Images:            w.Images.of(events.PartImage), Files: w.Files.of(events.PartFile),
		Audio: w.Audio.of(events.PartAudio), Videos: w.Videos.of(events.PartVideo),
		ImageOutput: w.ImageOutput.of(events.PartImage), FileOutput: w.FileOutput.of(events.PartFile),
		AudioOutput: w.AudioOutput.of(events.PartAudio), VideoOutput: w.VideoOutput.of(events.PartVideo),
		ToolCalls: w.ToolCalls, ToolName: string(w.ToolName), ToolCallID: string(w.ToolCallID),
		ToolError: bool(w.ToolError), Summary: bool(w.Summary), Citations: json.RawMessage(w.Citations),
	}
	if m.ToolName == "" && m.Role == api.RoleTool {
		m.ToolName = string(w.Name)
	}
	return nil
}

// content is text as a string, or a list of strings, {"text"} and {"content"}.
type refContent string

func (c *refContent) UnmarshalJSON(raw []byte) error {
	*c = refContent(strings.Join(refContentParts(raw, nil, 0), "\n"))
	return nil
}

const refMaxContentDepth = 8 // hosts nest once; more is somebody playing

func refContentParts(raw []byte, parts []string, depth int) []string {
	if depth > refMaxContentDepth {
		return parts
	}
	switch refKind(raw) {
	case '[':
		for _, item := range refLooseList(raw) {
			parts = refContentParts(item, parts, depth+1)
		}
	case '{':
		var o struct {
			Text    json.RawMessage `json:"text"`
			Content json.RawMessage `json:"content"`
		}
		if json.Unmarshal(raw, &o) != nil {
			return parts
		}
		if !refAbsent(o.Text) {
			return refContentParts(o.Text, parts, depth+1)
		}
		return refContentParts(o.Content, parts, depth+1)
	default:
		if s := refLooseString(raw); s != "" {
			parts = append(parts, s)
		}
	}
	return parts
}

// attachments is a list of attachments, or a single one.
type refAttachments []api.Attachment

func (a *refAttachments) UnmarshalJSON(raw []byte) error {
	*a = nil
	var one refAttachmentWire
	switch refKind(raw) {
	case '[':
		var l []refAttachmentWire
		if err := json.Unmarshal(raw, &l); err != nil {
			return err
		}
		for _, w := range l {
			if !w.empty() {
				*a = append(*a, api.Attachment(w))
			}
		}
	case '{', '"':
		if err := json.Unmarshal(raw, &one); err != nil {
			return err
		}
		if !one.empty() {
			*a = refAttachments{api.Attachment(one)}
		}
	}
	return nil
}

func (a refAttachments) of(refKind string) []api.Attachment {
	for i := range a {
		a[i].Kind = refKind
	}
	return a
}

type refAttachmentWire api.Attachment

func (w *refAttachmentWire) empty() bool { return w.URL == "" && w.FilePath == "" && w.Content == "" }

func (w *refAttachmentWire) UnmarshalJSON(raw []byte) error {
	*w = refAttachmentWire{}
	switch refKind(raw) {
	case '"':
		w.URL = refLooseString(raw)
	case '{':
		var o struct {
			URL        refText         `json:"url"`
			FilePath   refText         `json:"filepath"`
			Content    refText         `json:"content"`
			MimeType   refText         `json:"mime_type"`
			ID         refText         `json:"id"`
			AltText    refText         `json:"alt_text"`
			Filename   refText         `json:"filename"`
			Name       refText         `json:"name"`
			Transcript refText         `json:"transcript"`
			Format     refText         `json:"format"`
			Size       json.RawMessage `json:"size"`
		}
		if err := json.Unmarshal(raw, &o); err != nil {
			return err
		}
		*w = refAttachmentWire{
			URL: string(o.URL), FilePath: string(o.FilePath), Content: string(o.Content), MimeType: string(o.MimeType),
			ID: string(o.ID), AltText: string(o.AltText), Filename: string(o.Filename), Name: string(o.Name),
			Transcript: string(o.Transcript), Format: string(o.Format), Size: int64(refLooseInt(o.Size)),
		}
	}
	return nil
}

type refToolCalls []api.ToolCall

func (t *refToolCalls) UnmarshalJSON(raw []byte) error {
	*t = nil
	for _, item := range refLooseList(raw) {
		if c, ok := refDecodeToolCall(item); ok {
			*t = append(*t, c)
		}
	}
	return nil
}

// decodeToolCall reads {"id","name","arguments"} and the nested shape
// {"id","function":{"name","arguments"}}.
func refDecodeToolCall(raw []byte) (api.ToolCall, bool) {
	type flat struct {
		Name      refText         `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		Input     json.RawMessage `json:"input"`
	}
	var o struct {
		ID refText `json:"id"`
		flat
		ToolName refText         `json:"tool_name"`
		Function json.RawMessage `json:"function"`
	}
	if refKind(raw) != '{' || json.Unmarshal(raw, &o) != nil {
		return api.ToolCall{}, false
	}
	f := o.flat
	if refKind(o.Function) == '{' {
		f = flat{}
		if json.Unmarshal(o.Function, &f) != nil {
			return api.ToolCall{}, false
		}
	}
	if f.Name == "" {
		f.Name = o.ToolName
	}
	if refAbsent(f.Arguments) {
		f.Arguments = f.Input
	}
	return api.ToolCall{ID: string(o.ID), Name: string(f.Name), Arguments: refArguments(f.Arguments)}, f.Name != ""
}

// arguments makes JSON of arguments that came as an object or as the text of
// one.
func refArguments(raw json.RawMessage) json.RawMessage {
	if refAbsent(raw) {
		return nil
	}
	if refKind(raw) == '"' {
		s := bytes.TrimSpace([]byte(refLooseString(raw)))
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
type refCitationsWire json.RawMessage

func (c *refCitationsWire) UnmarshalJSON(raw []byte) error {
	if k := refKind(raw); k == '{' || k == '[' {
		*c = append((*c)[:0], raw...)
	}
	return nil
}
