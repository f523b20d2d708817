package modelstub

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// openaiErrors are the usual type, code and message of a status, for both of
// OpenAI's APIs.
var openaiErrors = map[int][3]string{
	http.StatusBadRequest:          {"invalid_request_error", "invalid_prompt", "Invalid prompt."},
	http.StatusUnauthorized:        {"invalid_request_error", "invalid_api_key", "Incorrect API key provided."},
	http.StatusForbidden:           {"invalid_request_error", "insufficient_permissions", "You have insufficient permissions for this operation."},
	http.StatusNotFound:            {"invalid_request_error", "model_not_found", "The model does not exist or you do not have access to it."},
	http.StatusTooManyRequests:     {"requests", "rate_limit_exceeded", "Rate limit reached for requests."},
	http.StatusInternalServerError: {"server_error", "server_error", "The server had an error while processing your request."},
	http.StatusServiceUnavailable:  {"server_error", "server_is_overloaded", "The server is overloaded. Please try again later."},
}

// openaiMeans are the failures that OpenAI tells in another way than Anthropic.
var openaiMeans = map[meaning]Failure{
	meansContext: {
		Status: http.StatusBadRequest, Type: "invalid_request_error", Code: "context_length_exceeded",
		Message: "Your input exceeds the context window of this model. Please adjust your input and try again.",
	},
	meansCredit: {
		Status: http.StatusTooManyRequests, Type: "insufficient_quota", Code: "insufficient_quota",
		Message: "You exceeded your current quota, please check your plan and billing details.",
	},
}

// openaiFailure fills in what a failure does not say itself.
func openaiFailure(f Failure) Failure {
	if m, ok := openaiMeans[f.means]; ok {
		m.RetryAfter, m.Header, m.Body = f.RetryAfter, f.Header, f.Body
		return m
	}
	if f.Status == 529 { // is Anthropic's
		f.Status = http.StatusServiceUnavailable
	}
	usual, ok := openaiErrors[f.Status]
	if !ok {
		usual = [3]string{"server_error", "server_error", http.StatusText(f.Status)}
	}
	if f.Code == "" {
		f.Code = f.Type
	}
	for i, p := range []*string{&f.Type, &f.Code, &f.Message} {
		if *p == "" {
			*p = usual[i]
		}
	}
	return f
}

// openaiError is the object that says what failed.
func openaiError(f Failure) string {
	return fmt.Sprintf(`{"message":%s,"type":%s,"param":null,"code":%s}`, quote(f.Message), quote(f.Type), quote(f.Code))
}

func openaiFailureBody(f Failure) (int, []byte) {
	f = openaiFailure(f)
	if f.Body != "" {
		return f.Status, []byte(f.Body)
	}
	return f.Status, []byte(`{"error":` + openaiError(f) + `}`)
}

// openaiModels answers the request for the list of models.
func openaiModels() []byte {
	return []byte(`{"object":"list","data":[{"id":"gpt-5.4","object":"model","created":1764288000,"owned_by":"stub"},` +
		`{"id":"gpt-5.5","object":"model","created":1764288000,"owned_by":"stub"}]}`)
}

// openaiParts reads content: a string, or a list of parts.
func openaiParts(js json.RawMessage) []Part {
	var s string
	if len(js) == 0 || string(js) == "null" {
		return nil
	}
	if json.Unmarshal(js, &s) == nil {
		return []Part{{Type: "text", Text: s, Raw: js}}
	}
	var list []json.RawMessage
	_ = json.Unmarshal(js, &list) // what is neither is no part
	out := make([]Part, 0, len(list))
	for _, raw := range list {
		out = append(out, openaiPart(raw))
	}
	return out
}

// openaiPart reads a part of either API and gives it the names that Part has.
func openaiPart(raw json.RawMessage) Part {
	var p struct {
		Type, Text, Refusal string
		ImageURL            json.RawMessage `json:"image_url"`
		FileData            string          `json:"file_data"`
		Filename            string
		File                struct {
			FileData string `json:"file_data"`
			Filename string
		}
		InputAudio struct{ Data, Format string } `json:"input_audio"`
	}
	_ = json.Unmarshal(raw, &p) // fields of other types are left empty; Raw has them
	out := Part{Type: p.Type, Text: p.Text + p.Refusal, Name: p.Filename + p.File.Filename, Raw: raw}
	switch p.Type {
	case "input_text", "output_text", "summary_text", "reasoning_text", "refusal":
		out.Type = "text"
	case "input_image", "image_url":
		out.Type = "image"
		out.MediaType, out.Data = dataURL(imageURL(p.ImageURL))
	case "input_file", "file":
		out.Type = "file"
		out.MediaType, out.Data = dataURL(p.FileData + p.File.FileData)
	case "input_audio":
		out.Type, out.MediaType, out.Data = "audio", "audio/"+p.InputAudio.Format, p.InputAudio.Data
	}
	return out
}

// imageURL is a string in one API and an object with a string in the other.
func imageURL(js json.RawMessage) string {
	var s string
	if json.Unmarshal(js, &s) == nil {
		return s
	}
	var o struct{ URL string }
	_ = json.Unmarshal(js, &o) // neither: no image
	return o.URL
}

// dataURL gives type and base64 of a data: URL; of another, the URL as data.
func dataURL(s string) (mediaType, data string) {
	rest, ok := strings.CutPrefix(s, "data:")
	if !ok {
		return "", s
	}
	head, data, _ := strings.Cut(rest, ",")
	mediaType, _, _ = strings.Cut(head, ";")
	return mediaType, data
}

// argumentsOf is a call's input as JSON: in these APIs it is a string. One that
// is no JSON, as of a freeform tool, stays a JSON string.
func argumentsOf(s string) json.RawMessage {
	if json.Valid([]byte(s)) {
		return json.RawMessage(s)
	}
	return json.RawMessage(quote(s))
}

// say adds parts to the conversation: what one side says in a row is one message.
func (r *Request) say(role string, ps ...Part) {
	n := len(r.Messages)
	if n > 0 && r.Messages[n-1].Role == role && (role == "assistant" || isResult(ps) && isResult(r.Messages[n-1].Parts)) {
		r.Messages[n-1].Parts = append(r.Messages[n-1].Parts, ps...)
		return
	}
	r.Messages = append(r.Messages, Message{Role: role, Parts: ps})
}

func isResult(ps []Part) bool { return len(ps) > 0 && ps[0].Type == "tool_result" }

// instruct adds a text of the system.
func (r *Request) instruct(s string) {
	if s == "" {
		return
	}
	if r.System != "" {
		r.System += "\n\n"
	}
	r.System += s
}

// resultPart is what a tool answered.
func resultPart(id string, output, raw json.RawMessage) Part {
	p := Part{Type: "tool_result", ID: id, Parts: openaiParts(output), Raw: raw}
	p.Text = joined(p.Parts, "\n")
	return p
}

// writeQuoted writes s as the inside of a JSON string, in pieces: a delta of
// 64 MiB must not be copied around whole.
func writeQuoted(w *bufio.Writer, s string) {
	for s != "" {
		n := runes(s, 64<<10)
		js := quote(s[:n])
		_, _ = w.WriteString(js[1 : len(js)-1])
		s = s[n:]
	}
}
