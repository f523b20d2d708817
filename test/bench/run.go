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

// stream is what every reader of a run must have seen, made from its journal.
type stream struct {
	frames []byte
	count  int64
	head   int // where the frame ends behind which the run waited
	tail   int // where its last message ends; what follows waits for the disk
}

func (g *gated) written() (*stream, error) {
	segments, err := filepath.Glob(filepath.Join(g.p.dir, "runs", g.task, "*.jsonl"))
	if err != nil || len(segments) == 0 {
		return nil, cmp.Or(err, errors.New("the run has no journal"))
	}
	s := &stream{}
	for _, name := range segments { // named so that their order is theirs
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if err := s.add(data, g.head); err != nil {
			return nil, err
		}
	}
	s.frames = append(s.frames, sse.DoneFrame...)
	return s, nil
}

var messageMark = []byte(`"type":"` + string(events.TypeMessage) + `"`)

// add adds the frames of a segment's lines.
func (s *stream) add(lines []byte, head int64) error {
	for line := range bytes.Lines(lines) {
		s.count++
		if !bytes.HasPrefix(line, fmt.Appendf(nil, `{"id":%d,`, s.count)) {
			return fmt.Errorf("line %d of the journal is %.80q", s.count, line)
		}
		s.frames = append(strconv.AppendInt(append(s.frames, "id: "...), s.count, 10), "\ndata: "...)
		s.frames = append(append(s.frames, line...), '\n')
		if s.count == head {
			s.head = len(s.frames)
		}
		if bytes.Contains(line[:min(len(line), 100)], messageMark) {
			s.tail = len(s.frames)
		}
	}
	return nil
}

// forget deletes the run, which has ended. The memory of its files is then the
// next round's: on a virtual machine, pages that were never touched before
// cost several times as much, and rounds would be slower one after another.
func (g *gated) forget(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, g.p.url+"/tasks/"+g.task, nil)
	if err != nil {
		return err
	}
	res, err := g.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close() //nolint:errcheck // nothing is in it
	if res.StatusCode != http.StatusNoContent {
		return fmt.Errorf("delete the run of a round: %s", res.Status)
	}
	return nil
}
