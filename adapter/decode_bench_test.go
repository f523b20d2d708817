package adapter_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"innerd/adapter"
)

// BenchmarkDecode is the way from the body of a /message:* request to the run
// that it asks for: a conversation of short texts, as it stands before a turn,
// without and with what a host may send beside it, and large ones.
func BenchmarkDecode(b *testing.B) {
	text := func(i int) any { return fmt.Sprintf("message number %d", i) }
	short := func() []any { return conversation(60, text) }
	parts := func() []any {
		return conversation(60, func(i int) any {
			return []any{map[string]any{"type": "text", "text": fmt.Sprintf("line\nnumber %d", i)}}
		})
	}
	long := func() []any {
		return conversation(1364, func(int) any { return strings.Repeat("All work and no play. ", 1000) })
	}
	for _, c := range []struct {
		name     string
		messages func() []any
		metadata string
	}{
		{"short", short, `{"backend":"claude-code","native_tool_schemas":null}`},
		{"task_id", short, `{"backend":"claude-code","native_tool_schemas":null,"task_id":"task-0001"}`},
		{"credentials", short, `{"backend":"claude-code","credentials":{"api_key":"sk-1"},"env":{"A":"b"}}`},
		{"tools", short, `{"backend":"claude-code","native_tool_schemas":[` + tools(20) + `]}`},
		{"parts", parts, `{"backend":"claude-code"}`},
		{"calls", func() []any { return calls(60) }, `{"backend":"claude-code"}`},
		{"60MB", long, `{"backend":"claude-code"}`},
		{"60MB_task_id", long, `{"backend":"claude-code","task_id":"task-0001"}`},
		{"6MB_short", func() []any { return conversation(55_000, text) }, `{"backend":"claude-code"}`},
	} {
		b.Run(c.name, func(b *testing.B) {
			messages, err := json.Marshal(c.messages())
			if err != nil {
				b.Fatal(err)
			}
			body := []byte(`{"context_id":"conversation-1","messages":` + string(messages) + `,"metadata":` + c.metadata + `}`)
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := adapter.SpecOf(body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// conversation is pairs of a message of the user and one of the assistant.
func conversation(pairs int, content func(i int) any) (out []any) {
	for i := range pairs {
		out = append(out,
			map[string]any{"role": "user", "content": content(2 * i)},
			map[string]any{"role": "assistant", "content": content(2*i + 1)})
	}
	return out
}

// calls is pairs of a call that an assistant made and its result.
func calls(pairs int) (out []any) {
	for i := range pairs {
		id := fmt.Sprintf("call_%d", i)
		out = append(out,
			map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{
				map[string]any{"id": id, "type": "function", "function": map[string]any{"name": "read", "arguments": `{"path":"/a/b"}`}},
			}},
			map[string]any{"role": "tool", "tool_call_id": id, "tool_name": "read", "content": "what is in it"})
	}
	return append(out, map[string]any{"role": "user", "content": "go on"})
}

func tools(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`{"name":"tool_%d","description":"What it does.\nAnd when.","parameters":{"type":"object","properties":{`+
			`"path":{"type":"string","description":"A path."},"count":{"type":"integer","minimum":1}},"required":["path"]}}`, i))
	}
	return strings.Join(list, ",")
}
