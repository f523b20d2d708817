package codex

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"innerd/backends/internal/told"
	"innerd/events"
)

// answerOf is a host's answer as codex takes it: texts and images. What is
// neither is put into words. An answer that nobody gave says so: the model
// would make nothing of an empty one.
func answerOf(a events.Answer) toolAnswer {
	out := toolAnswer{Items: []contentItem{}, Success: !failedAnswer(a)}
	if a.Result == "" && len(a.Content) == 0 {
		switch a.Outcome {
		case events.OutcomeTimeout:
			a.Result = "The tool did not answer in time."
		case events.OutcomeCanceled:
			a.Result = "The tool call was canceled."
		}
	}
	for _, p := range a.Parts() {
		out.Items = append(out.Items, contentOf(p))
	}
	return out
}

func failedAnswer(a events.Answer) bool {
	switch a.Outcome {
	case events.OutcomeError, events.OutcomeTimeout, events.OutcomeCanceled, events.OutcomeExpired, events.OutcomeDenied:
		return true
	}
	return a.IsError
}

func contentOf(p events.Part) contentItem {
	switch {
	case p.Type == events.PartText:
		return contentItem{Type: "inputText", Text: p.Text}
	case p.Type == events.PartJSON:
		return contentItem{Type: "inputText", Text: compact(p.JSON)}
	case p.Type == events.PartImage && p.Data != "" && told.Visible(p.MimeType):
		return contentItem{Type: "inputImage", ImageURL: dataURL(p.MimeType, p.Data)}
	case p.Data != "":
		if raw, err := base64.StdEncoding.DecodeString(p.Data); err == nil && len(raw) <= told.MaxInline && utf8.Valid(raw) {
			return contentItem{Type: "inputText", Text: fmt.Sprintf("[file %s]\n%s\n[end of %s]", p.Name, raw, p.Name)}
		}
		return contentItem{Type: "inputText", Text: named(p, "its content is not text, and can't be shown")}
	}
	return contentItem{Type: "inputText", Text: named(p, orElse(p.URL, p.Path))}
}

func named(p events.Part, where string) string {
	what := p.Type
	if p.Name != "" {
		what += " " + p.Name
	}
	if p.MimeType != "" {
		what += " (" + p.MimeType + ")"
	}
	return fmt.Sprintf("[%s: %s]", what, where)
}

func compact(raw json.RawMessage) string {
	out, err := plainJSON(raw)
	if err != nil {
		return string(raw)
	}
	return string(out)
}

func dataURL(mime, data string) string {
	return "data:" + orElse(mime, "image/png") + ";base64," + data
}
