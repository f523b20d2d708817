package modelstub

import (
	"bufio"
	"fmt"
	"strings"
)

// chat is OpenAI's Chat Completions API.
type chat struct{}

func (chat) prefixes() (reply, call string) { return "chatcmpl", "call" }

func (chat) failure(f Failure, _ string) (int, []byte) { return openaiFailureBody(f) }

func (chat) count(r *Request) []byte { return fmt.Appendf(nil, `{"input_tokens":%d}`, len(r.Body)/4) }

func (chat) stream(w *bufio.Writer, r *Request) renderer {
	return &chatStream{w: w, usage: r.usage}
}

// chatFinish is the API's word for why a reply ended.
func chatFinish(stop string) string {
	switch stop {
	case "end_turn", "stop_sequence", "refusal":
		return "stop"
	case "tool_use":
		return "tool_calls"
	case "max_tokens":
		return "length"
	}
	return stop
}

func chatUsage(u Usage) string {
	in := u.Input + u.CacheRead + u.CacheWrite
	return fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d},`+
		`"completion_tokens_details":{"reasoning_tokens":%d}}`, in, u.Output, in+u.Output, u.CacheRead, u.Thinking)
}

func (chat) whole(rp reply, cs []content) []byte {
	var text, thinking strings.Builder
	var calls []string
	for _, c := range cs {
		switch c.kind {
		case kindText:
			text.WriteString(c.text)
		case kindThinking:
			thinking.WriteString(c.text)
		case kindTool:
			calls = append(calls, chatCall(c, c.text, -1))
		}
	}
	fields := `"content":` + quote(text.String())
	if rp.stop == "refusal" {
		fields = `"content":null,"refusal":` + quote(text.String())
	}
	if thinking.Len() > 0 {
		fields += `,"reasoning_content":` + quote(thinking.String())
	}
	if calls != nil {
		fields += `,"tool_calls":[` + strings.Join(calls, ",") + `]`
	}
	return fmt.Appendf(nil, `{"id":%s,"object":"chat.completion","created":1764288000,"model":%s,"choices":[{"index":0,`+
		`"message":{"role":"assistant",%s},"finish_reason":%q}],"usage":%s}`, quote(rp.id), quote(rp.model), fields, chatFinish(rp.stop), chatUsage(rp.usage))
}

// chatCall is a call with what it says so far; index is left out if negative.
func chatCall(c content, text string, index int) string {
	at := ""
	if index >= 0 {
		at = fmt.Sprintf(`"index":%d,`, index)
	}
	if c.custom {
		return fmt.Sprintf(`{%s"id":%s,"type":"custom","custom":{"name":%s,"input":%s}}`, at, quote(c.id), quote(c.name), quote(text))
	}
	return fmt.Sprintf(`{%s"id":%s,"type":"function","function":{"name":%s,"arguments":%s}}`, at, quote(c.id), quote(c.name), quote(text))
}

// chatStream writes chunks. Errors of the writer are sticky and seen at the
// next flush.
type chatStream struct {
	w     *bufio.Writer
	usage bool // it was asked for
	rp    reply
	c     content // the open one
	calls int
}

// before and after are what stands around the delta of every chunk.
func (s *chatStream) before() {
	_, _ = fmt.Fprintf(s.w, `data: {"id":%s,"object":"chat.completion.chunk","created":1764288000,"model":%s,"choices":[{"index":0,"delta":`,
		quote(s.rp.id), quote(s.rp.model))
}

func (s *chatStream) after(finish string) {
	if finish != "null" {
		finish = quote(finish)
	}
	_, _ = fmt.Fprintf(s.w, ",\"finish_reason\":%s}],\"usage\":null}\n\n", finish)
}

func (s *chatStream) chunk(delta, finish string) {
	s.before()
	_, _ = s.w.WriteString(delta)
	s.after(finish)
}

func (s *chatStream) event(name, data string) {
	_, _ = fmt.Fprintf(s.w, "event: %s\ndata: %s\n\n", name, data)
}

func (s *chatStream) begin(rp reply) {
	s.rp = rp
	s.chunk(`{"role":"assistant","content":""}`, "null")
}

func (s *chatStream) open(_ int, c content) {
	s.c = c
	switch c.kind {
	case kindTool:
		s.chunk(`{"tool_calls":[`+chatCall(c, "", s.calls)+`]}`, "null")
	case kindRaw:
		s.chunk(string(c.raw), "null")
	}
}

func (s *chatStream) delta(_ int, k blockKind, text string) {
	head, tail := `{"content":"`, `"}`
	switch {
	case k == kindThinking:
		head = `{"reasoning_content":"`
	case k == kindTool && s.c.custom:
		head, tail = fmt.Sprintf(`{"tool_calls":[{"index":%d,"custom":{"input":"`, s.calls), `"}}]}`
	case k == kindTool:
		head, tail = fmt.Sprintf(`{"tool_calls":[{"index":%d,"function":{"arguments":"`, s.calls), `"}}]}`
	case s.rp.stop == "refusal":
		head = `{"refusal":"`
	}
	s.before()
	_, _ = s.w.WriteString(head)
	writeQuoted(s.w, text)
	_, _ = s.w.WriteString(tail)
	s.after("null")
}

func (s *chatStream) shut(_ int, c content, _ func() string) {
	if c.kind == kindTool {
		s.calls++
	}
}

func (s *chatStream) end(rp reply) {
	s.chunk("{}", chatFinish(rp.stop))
	if s.usage {
		_, _ = fmt.Fprintf(s.w, "data: {\"id\":%s,\"object\":\"chat.completion.chunk\",\"created\":1764288000,\"model\":%s,\"choices\":[],\"usage\":%s}\n\n",
			quote(rp.id), quote(rp.model), chatUsage(rp.usage))
	}
	_, _ = s.w.WriteString("data: [DONE]\n\n")
}

// fail is an object that says error, in the place of a chunk.
func (s *chatStream) fail(f Failure, _ string) {
	_, body := openaiFailureBody(f)
	_, _ = fmt.Fprintf(s.w, "data: %s\n\n", oneLine(string(body)))
}
