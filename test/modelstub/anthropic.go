package modelstub

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
)

// anthropic is the Messages API.
type anthropic struct{}

type anthropicUsage struct {
	Input      int               `json:"input_tokens"`
	CacheWrite int               `json:"cache_creation_input_tokens"`
	CacheRead  int               `json:"cache_read_input_tokens"`
	Output     int               `json:"output_tokens"`
	Details    *anthropicDetails `json:"output_tokens_details,omitempty"`
}

type anthropicDetails struct {
	Thinking int `json:"thinking_tokens"`
}

func usageOf(u Usage) anthropicUsage {
	out := anthropicUsage{Input: u.Input, CacheWrite: u.CacheWrite, CacheRead: u.CacheRead, Output: u.Output}
	if u.Thinking > 0 {
		out.Details = &anthropicDetails{Thinking: u.Thinking}
	}
	return out
}

// messageJSON is a message apart from its content.
func messageJSON(rp reply, content, stop string, u anthropicUsage) string {
	return fmt.Sprintf(`{"id":%s,"type":"message","role":"assistant","model":%s,"content":%s,"stop_reason":%s,"stop_sequence":null,`+
		`"usage":{"input_tokens":%d,"cache_creation_input_tokens":%d,"cache_read_input_tokens":%d,`+
		`"cache_creation":{"ephemeral_5m_input_tokens":%d,"ephemeral_1h_input_tokens":0},"output_tokens":%d,"service_tier":"standard"}}`,
		quote(rp.id), quote(rp.model), content, stop, u.Input, u.CacheWrite, u.CacheRead, u.CacheWrite, u.Output)
}

func (anthropic) prefixes() (reply, call string) { return "msg", "toolu" }

func (anthropic) stream(w *bufio.Writer, _ *Request) renderer { return &anthropicStream{w: w} }

func (anthropic) whole(rp reply, cs []content) []byte {
	blocks := make([]json.RawMessage, 0, len(cs))
	for _, c := range cs {
		blocks = append(blocks, json.RawMessage(contentJSON(c, c.text, true)))
	}
	js, _ := json.Marshal(blocks) // what contentJSON makes is JSON
	return []byte(messageJSON(rp, string(js), quote(rp.stop), usageOf(rp.usage)))
}

// contentJSON is a block as it is when it begins, or whole. Input that is no
// JSON cannot be part of a whole message and becomes an empty object.
func contentJSON(c content, text string, whole bool) string {
	switch c.kind {
	case kindThinking:
		sig := ""
		if whole {
			sig = signature
		}
		return fmt.Sprintf(`{"type":"thinking","thinking":%s,"signature":%s}`, quote(text), quote(sig))
	case kindTool:
		if c.custom && whole {
			text = `{"input":` + quote(text) + `}`
		}
		if text == "" || !json.Valid([]byte(text)) {
			text = "{}"
		}
		return fmt.Sprintf(`{"type":"tool_use","id":%s,"name":%s,"input":%s}`, quote(c.id), quote(c.name), text)
	case kindRaw:
		return string(c.raw)
	default:
		return fmt.Sprintf(`{"type":"text","text":%s}`, quote(text))
	}
}

// signature stands for what a provider signs its thinking with.
const signature = "c3R1Yi1zaWduYXR1cmU="

func (anthropic) count(r *Request) []byte {
	return fmt.Appendf(nil, `{"input_tokens":%d}`, len(r.Body)/4)
}

var anthropicErrors = map[int][2]string{
	http.StatusBadRequest:            {"invalid_request_error", "the request is not valid"},
	http.StatusUnauthorized:          {"authentication_error", "invalid x-api-key"},
	http.StatusForbidden:             {"permission_error", "Your API key does not have permission to use the specified resource"},
	http.StatusNotFound:              {"not_found_error", "model not found"},
	http.StatusRequestEntityTooLarge: {"request_too_large", "Request exceeds the maximum size"},
	http.StatusTooManyRequests:       {"rate_limit_error", "This request would exceed your organization's rate limit"},
	http.StatusInternalServerError:   {"api_error", "Internal server error"},
	529:                              {"overloaded_error", "Overloaded"},
}

func (anthropic) failure(f Failure, id string) (int, []byte) {
	if f.Body != "" {
		return f.Status, []byte(f.Body)
	}
	usual, ok := anthropicErrors[f.Status]
	if !ok {
		usual = [2]string{"api_error", http.StatusText(f.Status)}
	}
	if f.Type != "" {
		usual[0] = f.Type
	}
	if f.Message != "" {
		usual[1] = f.Message
	}
	return f.Status, fmt.Appendf(nil, `{"type":"error","error":{"type":%s,"message":%s},"request_id":%s}`,
		quote(usual[0]), quote(usual[1]), quote(id))
}

// anthropicStream writes server-sent events. Errors of the writer are sticky
// and seen at the next flush.
type anthropicStream struct {
	w      *bufio.Writer
	pinged bool
	custom bool // the open block is a freeform tool's
}

func (s *anthropicStream) event(name, data string) {
	_, _ = fmt.Fprintf(s.w, "event: %s\ndata: %s\n\n", name, data)
}

func (s *anthropicStream) begin(rp reply) {
	u := usageOf(rp.usage)
	u.Output = min(u.Output, 1)
	s.event("message_start", `{"type":"message_start","message":`+messageJSON(rp, "[]", "null", u)+`}`)
}

func (s *anthropicStream) open(i int, c content) {
	s.event("content_block_start", fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":%s}`, i, contentJSON(c, "", false)))
	if !s.pinged { // the provider pings after the first block began
		s.pinged = true
		s.event("ping", `{"type":"ping"}`)
	}
	if c.kind == kindTool { // and sends an empty piece of input first
		s.delta(i, kindTool, "")
	}
	if c.kind == kindTool && c.custom {
		s.delta(i, kindTool, `{"input":"`)
		s.custom = true
	}
}

var deltaKinds = map[blockKind][2]string{
	kindText:     {"text_delta", "text"},
	kindThinking: {"thinking_delta", "thinking"},
	kindTool:     {"input_json_delta", "partial_json"},
}

func (s *anthropicStream) delta(i int, k blockKind, text string) {
	names := deltaKinds[k]
	_, _ = fmt.Fprintf(s.w, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":%d,\"delta\":{\"type\":\"%s\",\"%s\":\"", i, names[0], names[1])
	if s.custom && text != "" { // inside a string that is inside the input
		text = inString(text)
	}
	writeQuoted(s.w, text)
	_, _ = s.w.WriteString("\"}}\n\n")
}

func (s *anthropicStream) shut(i int, c content, _ func() string) {
	if s.custom {
		s.custom = false
		s.delta(i, kindTool, `"}`)
	}
	if c.kind == kindThinking {
		s.event("content_block_delta", fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":{"type":"signature_delta","signature":%s}}`,
			i, quote(signature)))
	}
	s.event("content_block_stop", fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, i))
}

func (s *anthropicStream) end(rp reply) {
	js, _ := json.Marshal(usageOf(rp.usage)) // cannot fail: four numbers
	s.event("message_delta", fmt.Sprintf(`{"type":"message_delta","delta":{"stop_reason":%s,"stop_sequence":null},"usage":%s}`, quote(rp.stop), js))
	s.event("message_stop", `{"type":"message_stop"}`)
}

func (s *anthropicStream) fail(f Failure, id string) {
	_, body := anthropic{}.failure(f, id)
	s.event("error", oneLine(string(body)))
}

// quote is s as a JSON string, with no more escapes than needed.
func quote(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // cannot fail for a string
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}
