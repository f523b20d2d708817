package modelstub_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
)

// heard is what a client of an OpenAI API makes of a stream.
type heard struct {
	blocks []string // what each item, or each run of deltas of a kind, said
	end    string   // the last event, or the finish reason
	usage  map[string]any
	failed string // code of an error in the stream
	err    error
}

// datas reads the data of each event.
func datas(r io.Reader) (out []string, err error) {
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 64<<20)
	for sc.Scan() {
		if d, ok := strings.CutPrefix(sc.Text(), "data: "); ok {
			out = append(out, d)
		}
	}
	return out, sc.Err()
}

type responsesEvent struct {
	Type   string
	Number int    `json:"sequence_number"`
	Index  int    `json:"output_index"`
	ItemID string `json:"item_id"`
	Delta  string
	Item   struct {
		ID, Type, Name, Namespace, Phase, Arguments, Input string
		CallID                                             string `json:"call_id"`
		Content                                            []struct{ Text, Refusal string }
		Summary                                            []struct{ Text string }
	}
	Response struct {
		Status     string
		Error      *struct{ Code string }
		Incomplete struct{ Reason string } `json:"incomplete_details"`
		Usage      map[string]any
		Output     []json.RawMessage
	}
	Error *struct{ Code, Type string }
}

// hearResponses checks, while it reads, that deltas are those of their item,
// that events are numbered, and that the last one repeats the items.
func hearResponses(t *testing.T, r io.Reader) (h heard) {
	t.Helper()
	lines, err := datas(r)
	h.err = err
	said, last := map[int]string{}, responsesEvent{}
	numbered := 0
	for _, line := range lines {
		var e responsesEvent
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if strings.HasPrefix(e.Type, "response.") {
			if e.Number != numbered {
				t.Errorf("event %d has number %d", numbered, e.Number)
			}
			numbered++
		}
		last = e
		switch {
		case strings.HasSuffix(e.Type, ".delta"):
			said[e.Index] += e.Delta
		case e.Type == "response.output_item.done":
			it := e.Item
			whole := it.Arguments + it.Input
			for _, c := range it.Content {
				whole += c.Text + c.Refusal
			}
			for _, c := range it.Summary {
				whole += c.Text
			}
			if whole != said[e.Index] {
				t.Errorf("item %q, its deltas %q", whole, said[e.Index])
			}
			h.blocks = append(h.blocks, strings.Join(strings.Fields(it.Type+" "+it.Namespace+" "+it.Name+" "+it.CallID+" "+it.Phase), " ")+":"+whole)
		}
	}
	h.end, h.usage = last.Type, last.Response.Usage
	if last.Type == "response.incomplete" {
		h.end += " " + last.Response.Incomplete.Reason
	}
	if last.Response.Error != nil {
		h.failed = last.Response.Error.Code
	}
	if last.Type == "error" {
		h.failed = last.Error.Type
	}
	if last.Response.Usage != nil && len(last.Response.Output) != len(h.blocks) { // the others are cut short
		t.Errorf("%d items in %s, want %d", len(last.Response.Output), last.Type, len(h.blocks))
	}
	return h
}

func hearChat(t *testing.T, r io.Reader) (h heard) {
	t.Helper()
	lines, err := datas(r)
	h.err = err
	kind, calls := "", map[int]int{}
	add := func(k, s string) {
		if k != kind {
			h.blocks = append(h.blocks, k+":")
			kind = k
		}
		h.blocks[len(h.blocks)-1] += s
	}
	for i, line := range lines {
		if line == "[DONE]" {
			if i != len(lines)-1 {
				t.Error("something stands after [DONE]")
			}
			h.end += " [DONE]"
			continue
		}
		var c struct {
			Error   *struct{ Code string }
			Usage   map[string]any
			Choices []struct {
				Finish string `json:"finish_reason"`
				Delta  struct {
					Content, Refusal string
					Reasoning        string `json:"reasoning_content"`
					ToolCalls        []struct {
						Index            int
						ID, Type         string
						Function, Custom struct{ Name, Arguments, Input string }
					} `json:"tool_calls"`
					Odd string
				}
			}
		}
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if c.Error != nil {
			h.failed = c.Error.Code
		}
		if len(c.Choices) == 0 {
			h.usage = c.Usage
			continue
		}
		h.end = c.Choices[0].Finish
		d := c.Choices[0].Delta
		for k, s := range map[string]string{"text": d.Content, "thinking": d.Reasoning, "refusal": d.Refusal, "odd": d.Odd} {
			if s != "" {
				add(k, s)
			}
		}
		for _, tc := range d.ToolCalls {
			if tc.ID != "" {
				calls[tc.Index] = len(h.blocks)
				h.blocks = append(h.blocks, fmt.Sprintf("%s %s%s %s:", tc.Type, tc.Function.Name, tc.Custom.Name, tc.ID))
				kind = "a call"
			}
			h.blocks[calls[tc.Index]] += tc.Function.Arguments + tc.Custom.Input
		}
	}
	return h
}

// apis are the two of OpenAI's, asked in one way.
var apis = map[string]struct {
	path, ask string
	hear      func(*testing.T, io.Reader) heard
}{
	"responses": {"/v1/responses", askResponses, hearResponses},
	"chat":      {"/chat/completions", askChat, hearChat},
}
