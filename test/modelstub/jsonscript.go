package modelstub

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// The JSON form of a script; the README says what each field means.
type (
	jsonScript struct {
		Key   *string    `json:"key"`
		Turns []jsonTurn `json:"turns"`
		Then  *jsonTurn  `json:"then"`
	}
	jsonTurn struct {
		Blocks     []jsonBlock `json:"blocks"`
		Usage      *Usage      `json:"usage"`
		StopReason string      `json:"stop_reason"`
		Fail       *jsonFail   `json:"fail"`
		DelayMS    int         `json:"delay_ms"`
		Hold       string      `json:"hold"`
		Hang       bool        `json:"hang"`
		Cut        Cut         `json:"cut"`
		Times      int         `json:"times"`
		Instead    []jsonBlock `json:"instead"`
	}
	jsonBlock struct {
		Text     *string         `json:"text"`
		Thinking *string         `json:"thinking"`
		Tool     *jsonTool       `json:"tool_use"`
		Raw      json.RawMessage `json:"raw"`
		Phase    string          `json:"phase"`
		Flood    *struct {
			Deltas int `json:"deltas"`
			Bytes  int `json:"bytes"`
		} `json:"flood"`
		Chunk   int        `json:"chunk"`
		DelayMS int        `json:"delay_ms"`
		Then    []jsonStep `json:"then"`
		jsonStep
	}
	jsonTool struct {
		Name      string          `json:"name"`
		Namespace string          `json:"namespace"`
		ID        string          `json:"id"`
		Input     json.RawMessage `json:"input"`
		BadInput  *string         `json:"bad_input"`
		Freeform  *string         `json:"freeform"`
	}
	jsonStep struct {
		Add     string    `json:"add"`
		Hold    string    `json:"hold"`
		SleepMS int       `json:"sleep_ms"`
		Cut     Cut       `json:"cut"`
		Hang    bool      `json:"hang"`
		Error   *jsonFail `json:"error"`
		Event   *struct {
			Name string          `json:"name"`
			Data json.RawMessage `json:"data"`
		} `json:"event"`
	}
	jsonFail struct {
		Status      int             `json:"status"`
		Type        string          `json:"type"`
		Code        string          `json:"code"`
		Message     string          `json:"message"`
		Body        json.RawMessage `json:"body"`
		RetryAfterS float64         `json:"retry_after_s"`
	}
)

// Script adds a scenario from its JSON form. Unknown fields are errors.
func (s *Server) Script(js []byte) (*Scenario, error) {
	var in jsonScript
	dec := json.NewDecoder(bytes.NewReader(js))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&in); err != nil {
		return nil, fmt.Errorf("modelstub: script: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("modelstub: script: something stands after the object")
	}
	sc := s.Scenario()
	if in.Key != nil {
		sc.key = *in.Key
	}
	for i, t := range in.Turns {
		turn, err := t.turn(sc)
		if err != nil {
			return nil, fmt.Errorf("modelstub: script: turns[%d]: %w", i, err)
		}
		sc.Add(turn)
	}
	if in.Then != nil {
		turn, err := in.Then.turn(sc)
		if err != nil {
			return nil, fmt.Errorf("modelstub: script: then: %w", err)
		}
		sc.Func(func(Request) Turn { return turn })
	}
	return sc, nil
}

func (j jsonTurn) turn(sc *Scenario) (Turn, error) {
	blocks, err := jsonBlocks(sc, "blocks", j.Blocks)
	if err != nil {
		return Turn{}, err
	}
	t := Turn{Blocks: blocks, Usage: j.Usage, StopReason: j.StopReason, Fail: j.Fail.failure(), times: j.Times}
	if j.Instead != nil {
		instead, err := jsonBlocks(sc, "instead", j.Instead)
		if err != nil {
			return Turn{}, err
		}
		t = t.Instead(instead...)
	}
	if j.DelayMS > 0 {
		t = t.After(milliseconds(j.DelayMS))
	}
	if j.Hold != "" {
		t = t.Behind(sc.Gate(j.Hold))
	}
	if j.Hang {
		t = t.ahead(op{hang: true})
	}
	if j.Cut != "" {
		t = t.ahead(op{cut: j.Cut})
	}
	return t, errors.Join(j.Cut.check(), j.Fail.check(400))
}

func jsonBlocks(sc *Scenario, name string, in []jsonBlock) ([]Block, error) {
	var out []Block
	for i, j := range in {
		b, err := j.block(sc)
		if err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", name, i, err)
		}
		out = append(out, b)
	}
	return out, nil
}

func (j jsonBlock) block(sc *Scenario) (Block, error) {
	var found []Block
	if j.Text != nil {
		found = append(found, Text(*j.Text))
	}
	if j.Thinking != nil {
		found = append(found, Thinking(*j.Thinking))
	}
	if j.Flood != nil {
		found = append(found, Flood(j.Flood.Deltas, j.Flood.Bytes))
	}
	if j.Raw != nil {
		found = append(found, Raw(string(j.Raw)))
	}
	if j.Tool != nil {
		b, err := j.Tool.block()
		if err != nil {
			return Block{}, err
		}
		found = append(found, b)
	}
	if len(found) > 1 {
		return Block{}, errors.New("more than one of text, thinking, tool_use, flood, raw")
	}
	b := Control()
	if len(found) == 1 {
		b = found[0]
	}
	b.chunk, b.delay, b.phase = j.Chunk, milliseconds(j.DelayMS), j.Phase
	for i, step := range append([]jsonStep{j.jsonStep}, j.Then...) {
		var err error
		if b, err = step.do(sc, b, i == 0); err != nil {
			return Block{}, err
		}
	}
	if b.kind == kindControl && len(b.pieces) == 0 {
		return Block{}, errors.New("an empty block")
	}
	return b, nil
}

func (j jsonTool) block() (Block, error) {
	if j.Name == "" {
		return Block{}, errors.New("tool_use: name is missing")
	}
	var b Block
	switch {
	case j.Freeform != nil:
		b = Custom(j.Name, *j.Freeform)
	case j.BadInput != nil:
		b = BadTool(j.Name, *j.BadInput)
	case j.Input == nil:
		b = Tool(j.Name, struct{}{})
	default:
		b = Tool(j.Name, j.Input)
	}
	return b.ID(j.ID).Namespace(j.Namespace), nil
}

// do adds what a step says. Steps of their own (not first) say one thing.
func (j jsonStep) do(sc *Scenario, b Block, first bool) (Block, error) {
	n := len(b.pieces)
	if j.Add != "" {
		b = b.Add(j.Add)
	}
	if j.Hold != "" {
		b = b.Hold(sc.Gate(j.Hold))
	}
	if j.SleepMS > 0 {
		b = b.Sleep(milliseconds(j.SleepMS))
	}
	if j.Event != nil {
		b = b.Event(j.Event.Name, strings.ReplaceAll(string(j.Event.Data), "\n", ""))
	}
	if j.Error != nil {
		b = b.Error(*j.Error.failure())
	}
	if j.Cut != "" {
		b = b.Cut(j.Cut)
	}
	if j.Hang {
		b = b.Hang()
	}
	if got := len(b.pieces) - n; got > 1 || got == 0 && !first {
		return b, fmt.Errorf("a step with %d of add, hold, sleep_ms, event, error, cut, hang; one is needed", got)
	}
	return b, errors.Join(j.Cut.check(), j.Error.check(0))
}

func (j *jsonFail) failure() *Failure {
	if j == nil {
		return nil
	}
	return &Failure{Status: j.Status, Type: j.Type, Code: j.Code, Message: j.Message, Body: string(j.Body), RetryAfter: time.Duration(j.RetryAfterS * float64(time.Second))}
}

func (j *jsonFail) check(least int) error {
	if j != nil && (j.Status < least || j.Status > 599) {
		return fmt.Errorf("status %d: want %d to 599", j.Status, max(least, 400))
	}
	return nil
}

func (c Cut) check() error {
	switch c {
	case "", CutReset, CutDrop, CutEOF:
		return nil
	}
	return fmt.Errorf("cut %q: want reset, drop or eof", string(c))
}

func milliseconds(n int) time.Duration { return time.Duration(n) * time.Millisecond }
