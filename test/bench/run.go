package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"

	"innerd/events"
	"innerd/events/sse"
)

// gateTool is the host's tool that a gated run waits for.
const gateTool = "gate"

// gateMark stands in the last frame before a gated run waits.
const gateMark = `"type":"` + string(events.TypeToolRequest) + `"`

// gated is a run of innerd that waits for its readers before it goes on.
type gated struct {
	p      *process
	client *http.Client
	task   string
	callID string
	head   int64 // id of the frame behind which it waits
}

// start begins a run that calls a tool of the host and then plays steps.
func (p *process) gated(ctx context.Context, steps ...map[string]any) (*gated, error) {
	g := &gated{p: p, client: &http.Client{}}
	script := append([]map[string]any{{"call": map[string]any{"tool": gateTool, "arguments": map[string]any{}}}}, steps...)
	res, err := post(ctx, g.client, p.url+"/message:stream", request(script, map[string]any{
		"detach":              true,
		"native_tool_schemas": []any{map[string]any{"name": gateTool, "description": "Waits."}},
	}))
	if err != nil {
		return nil, err
	}
	defer res.Body.Close() //nolint:errcheck // the run goes on without this reader
	for rd := sse.NewReader(res.Body, nil); ; {
		f, err := rd.Next()
		if err != nil {
			return nil, fmt.Errorf("the run does not get to its gate: %w", err)
		}
		e, err := events.ParseLine(bytes.Clone(f.Data))
		if err != nil {
			return nil, err
		}
		switch d := e.Data.(type) {
		case events.TaskID:
			g.task = d.TaskID
		case events.ToolRequest:
			g.callID, g.head = d.ToolCallID, e.ID
			return g, nil
		case events.Error:
			return nil, errors.New(d.Message)
		}
	}
}

// request is the body of a turn that plays a script.
func request(script []map[string]any, metadata map[string]any) map[string]any {
	m := map[string]any{"backend": "simulate", "agent_options": map[string]any{"script": script}}
	for k, v := range metadata {
		m[k] = v
	}
	return map[string]any{"messages": []any{map[string]any{"role": "user", "content": "go"}}, "metadata": m}
}

func (g *gated) events() string { return g.p.url + "/tasks/" + g.task + "/events" }

// open lets the run go on.
func (g *gated) open(ctx context.Context) error {
	return call(ctx, g.client, g.p.url+"/tools/"+g.callID+"/result", map[string]any{"result": "go"})
}

// written makes the frames of a run from its journal: what every reader must
// have seen. head is where the frame of an id ends.
func (g *gated) written(id int64) (frames []byte, head int, count int64, err error) {
	segments, err := filepath.Glob(filepath.Join(g.p.dir, "runs", g.task, "*.jsonl"))
	if err != nil || len(segments) == 0 {
		return nil, 0, 0, cmp.Or(err, errors.New("the run has no journal"))
	}
	for _, name := range segments { // named so that their order is theirs
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, 0, 0, err
		}
		for line := range bytes.Lines(data) {
			count++
			if !bytes.HasPrefix(line, fmt.Appendf(nil, `{"id":%d,`, count)) {
				return nil, 0, 0, fmt.Errorf("line %d of the journal is %.80q", count, line)
			}
			frames = append(strconv.AppendInt(append(frames, "id: "...), count, 10), "\ndata: "...)
			frames = append(append(frames, line...), '\n')
			if count == id {
				head = len(frames)
			}
		}
	}
	return append(frames, sse.DoneFrame...), head, count, nil
}
