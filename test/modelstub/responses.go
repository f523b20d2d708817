package modelstub

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// responses is OpenAI's Responses API.
type responses struct{}

func (responses) prefixes() (reply, call string) { return "resp", "call" }

func (responses) failure(f Failure, _ string) (int, []byte) { return openaiFailureBody(f) }

func (responses) count(r *Request) []byte {
	return fmt.Appendf(nil, `{"object":"response.input_tokens","input_tokens":%d}`, len(r.Body)/4)
}

func (responses) stream(w *bufio.Writer, _ *Request) renderer { return &responsesStream{w: w} }

func (responses) whole(rp reply, cs []content) []byte {
	items := make([]string, 0, len(cs))
	for i, c := range cs {
		items = append(items, responsesItemJSON(rp, i, c, c.text, true))
	}
	return []byte(responseJSON(rp, responsesStatus(rp.stop), items, true))
}

// responsesStatus is completed, or what an incomplete response gives as its reason.
func responsesStatus(stop string) string {
	switch stop {
	case "max_tokens":
		return "max_output_tokens"
	case "content_filter":
		return stop
	}
	return "completed"
}

// responseJSON is a response; status is one of the API's, or the reason of an
// incomplete one.
func responseJSON(rp reply, status string, items []string, usage bool) string {
	details := "null"
	if status != "completed" && status != "in_progress" {
		details, status = `{"reason":`+quote(status)+`}`, "incomplete"
	}
	counts := "null"
	if usage {
		counts = responsesUsage(rp.usage)
	}
	return fmt.Sprintf(`{"id":%s,"object":"response","created_at":1764288000,"status":%s,"error":null,"incomplete_details":%s,`+
		`"model":%s,"output":[%s],"usage":%s}`, quote(rp.id), quote(status), details, quote(rp.model), strings.Join(items, ","), counts)
}

func responsesUsage(u Usage) string {
	in := u.Input + u.CacheRead + u.CacheWrite
	written := ""
	if u.CacheWrite > 0 {
		written = fmt.Sprintf(`,"cache_write_tokens":%d`, u.CacheWrite)
	}
	return fmt.Sprintf(`{"input_tokens":%d,"input_tokens_details":{"cached_tokens":%d%s},"output_tokens":%d,`+
		`"output_tokens_details":{"reasoning_tokens":%d},"total_tokens":%d}`, in, u.CacheRead, written, u.Output, u.Thinking, in+u.Output)
}

// itemID is not the call's id: items and calls are numbered apart.
func itemID(rp reply, i int, c content) string {
	prefix := "msg"
	switch {
	case c.kind == kindThinking:
		prefix = "rs"
	case c.kind == kindTool && c.custom:
		prefix = "ctc"
	case c.kind == kindTool:
		prefix = "fc"
	}
	return fmt.Sprintf("%s_%s_%d", prefix, strings.TrimPrefix(rp.id, "resp_"), i)
}

// responsesItemJSON is an item as it is when it begins, or whole.
func responsesItemJSON(rp reply, i int, c content, text string, whole bool) string {
	id, status := quote(itemID(rp, i, c)), "in_progress"
	if whole {
		status = "completed"
	}
	switch c.kind {
	case kindThinking:
		if !whole {
			return fmt.Sprintf(`{"id":%s,"type":"reasoning","summary":[]}`, id)
		}
		return fmt.Sprintf(`{"id":%s,"type":"reasoning","summary":[{"type":"summary_text","text":%s}],"encrypted_content":%s}`,
			id, quote(text), quote(signature))
	case kindTool:
		return responsesCallJSON(id, status, c, text)
	case kindRaw:
		return string(c.raw)
	}
	parts := "[]"
	if whole {
		parts = "[" + responsesPart(rp, text) + "]"
	}
	phase := ""
	if c.phase != "" {
		phase = `,"phase":` + quote(c.phase)
	}
	return fmt.Sprintf(`{"id":%s,"type":"message","status":%q,"role":"assistant"%s,"content":%s}`, id, status, phase, parts)
}

func responsesCallJSON(id, status string, c content, text string) string {
	if c.custom {
		return fmt.Sprintf(`{"id":%s,"type":"custom_tool_call","status":%q,"call_id":%s,"name":%s,"input":%s}`,
			id, status, quote(c.id), quote(c.name), quote(text))
	}
	namespace := ""
	if c.namespace != "" {
		namespace = `,"namespace":` + quote(c.namespace)
	}
	return fmt.Sprintf(`{"id":%s,"type":"function_call","status":%q,"call_id":%s,"name":%s%s,"arguments":%s}`,
		id, status, quote(c.id), quote(c.name), namespace, quote(text))
}

func responsesPart(rp reply, text string) string {
	if rp.stop == "refusal" {
		return fmt.Sprintf(`{"type":"refusal","refusal":%s}`, quote(text))
	}
	return fmt.Sprintf(`{"type":"output_text","text":%s,"annotations":[]}`, quote(text))
}

// responsesStream writes server-sent events. Errors of the writer are sticky
// and seen at the next flush.
type responsesStream struct {
	w     *bufio.Writer
	rp    reply
	c     content // the open one
	items []string
	n     int // of events
}

// event writes an event of the API; fields stand after its type and number.
func (s *responsesStream) send(name, fields string) {
	_, _ = fmt.Fprintf(s.w, "event: %s\ndata: {\"type\":%q,\"sequence_number\":%d,%s}\n\n", name, name, s.n, fields)
	s.n++
}

func (s *responsesStream) event(name, data string) {
	_, _ = fmt.Fprintf(s.w, "event: %s\ndata: %s\n\n", name, data)
}

func (s *responsesStream) begin(rp reply) {
	s.rp = rp
	response := `"response":` + responseJSON(rp, "in_progress", nil, false)
	s.send("response.created", response)
	s.send("response.in_progress", response)
}

// names are the events of an item's content: which part, its deltas, its text
// at the end, and the field that has it.
type responsesNames struct{ part, index, delta, done, field string }

func (s *responsesStream) names(k blockKind) responsesNames {
	switch {
	case k == kindThinking:
		return responsesNames{"response.reasoning_summary_part", "summary_index", "response.reasoning_summary_text.delta", "response.reasoning_summary_text.done", "text"}
	case k == kindTool && s.c.custom:
		return responsesNames{"", "", "response.custom_tool_call_input.delta", "response.custom_tool_call_input.done", "input"}
	case k == kindTool:
		return responsesNames{"", "", "response.function_call_arguments.delta", "response.function_call_arguments.done", "arguments"}
	case s.rp.stop == "refusal":
		return responsesNames{"response.content_part", "content_index", "response.refusal.delta", "response.refusal.done", "refusal"}
	default:
		return responsesNames{"response.content_part", "content_index", "response.output_text.delta", "response.output_text.done", "text"}
	}
}

// where names the item, and the part in it if it has parts.
func (s *responsesStream) where(i int, n responsesNames) string {
	w := fmt.Sprintf(`"item_id":%s,"output_index":%d`, quote(itemID(s.rp, i, s.c)), i)
	if n.index != "" {
		w += fmt.Sprintf(`,%q:0`, n.index)
	}
	return w
}

func (s *responsesStream) part(i int, text string) string {
	if s.c.kind == kindThinking {
		return fmt.Sprintf(`"part":{"type":"summary_text","text":%s}`, quote(text))
	}
	return `"part":` + responsesPart(s.rp, text)
}

func (s *responsesStream) open(i int, c content) {
	s.c = c
	s.send("response.output_item.added", fmt.Sprintf(`"output_index":%d,"item":%s`, i, responsesItemJSON(s.rp, i, c, "", false)))
	if n := s.names(c.kind); n.part != "" && c.kind != kindRaw {
		s.send(n.part+".added", s.where(i, n)+","+s.part(i, ""))
	}
}

func (s *responsesStream) delta(i int, k blockKind, text string) {
	n := s.names(k)
	_, _ = fmt.Fprintf(s.w, "event: %s\ndata: {\"type\":%q,\"sequence_number\":%d,%s,\"delta\":\"", n.delta, n.delta, s.n, s.where(i, n))
	writeQuoted(s.w, text)
	_, _ = s.w.WriteString("\"}\n\n")
	s.n++
}

func (s *responsesStream) shut(i int, c content, all func() string) {
	item := responsesItemJSON(s.rp, i, c, all(), true)
	if c.kind != kindRaw {
		n := s.names(c.kind)
		s.send(n.done, fmt.Sprintf(`%s,%q:%s`, s.where(i, n), n.field, quote(all())))
		if n.part != "" {
			s.send(n.part+".done", s.where(i, n)+","+s.part(i, all()))
		}
	}
	s.items = append(s.items, item)
	s.send("response.output_item.done", fmt.Sprintf(`"output_index":%d,"item":%s`, i, item))
}

func (s *responsesStream) end(rp reply) {
	status, name := responsesStatus(rp.stop), "response.completed"
	if status != "completed" {
		name = "response.incomplete"
	}
	s.send(name, `"response":`+responseJSON(rp, status, s.items, true))
}

// fail is the provider's response.failed. A failure with a body of its own is
// the other kind of error event that the API has.
func (s *responsesStream) fail(f Failure, _ string) {
	if f.Body != "" {
		s.event("error", oneLine(f.Body))
		return
	}
	f = openaiFailure(f)
	response := responseJSON(s.rp, "in_progress", s.items, false)
	response = strings.Replace(response, `"status":"in_progress","error":null`,
		fmt.Sprintf(`"status":"failed","error":{"code":%s,"message":%s}`, quote(f.Code), quote(f.Message)), 1)
	s.send("response.failed", `"response":`+response)
}

// oneLine is JSON without line ends, which an SSE field cannot have.
func oneLine(js string) string {
	var b bytes.Buffer
	if json.Compact(&b, []byte(js)) != nil {
		return strings.ReplaceAll(js, "\n", " ")
	}
	return b.String()
}
