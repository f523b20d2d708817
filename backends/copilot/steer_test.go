package copilot_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/events"
)

// TestSteerAfterTheEnd: input that reaches copilot when its turn is over makes
// a turn of its own there. It is part of the same run, and answered.
func TestSteerAfterTheEnd(t *testing.T) {
	f := newFake(t, acts(send("i1"), []act{
		event(`{"type":"tool.execution_start","data":{"toolCallId":"c","toolName":"view","arguments":{}}}`),
		{Expect: `"mode":"immediate"`},
		event(`{"type":"tool.execution_complete","data":{"toolCallId":"c","success":true,"result":{"content":"ok"}}}`),
		say("first"),
	}, stop, []act{
		{Answer: `{"messageId":"i2"}`},
		event(`{"type":"user.message","data":{"messageId":"i2","content":"word"}}`),
		event(`{"type":"assistant.turn_start","data":{}}`), say("second"),
	}, stop)...)
	c := f.open(t, nil)
	rec := backendtest.NewRecorder(backendtest.Turn{Host: backendtest.Host{Steer: backendtest.Steer{On: events.TypeToolCall, Text: "word"}}}, nil, nil)
	steered := make(chan error, 1)
	rec.OnSteer(func() {
		go func() { // ends with the steer
			steered <- c.(backends.Steerer).Steer(t.Context(), []events.Part{events.Text("word")})
		}()
	})
	_, err := c.Run(t.Context(), backends.Input{Parts: []events.Part{events.Text("x")}}, rec)
	rec.Close()
	if err != nil || !slices.Equal(messages(rec), []string{"first", "second"}) || count(rec, events.TypeSteered) != 1 {
		t.Errorf("%v, %q, %d steered", err, messages(rec), count(rec, events.TypeSteered))
	}
	if err := <-steered; err != nil {
		t.Errorf("the steer: %v", err)
	}
	if err := c.(backends.Steerer).Steer(t.Context(), []events.Part{events.Text("x")}); !errors.Is(err, backends.ErrTooLate) {
		t.Errorf("after the run: %v", err)
	}
	if n := f.sent(t, `"method":"session.send"`); n != 2 {
		t.Errorf("%d sends", n)
	}
}

// firstHost sees whether a steer is over before it stands in the log.
type firstHost struct {
	backends.Host
	t       *testing.T
	steered chan error
}

func (h firstHost) Emit(e events.Event) {
	if e.Type() == events.TypeSteered {
		select {
		case err := <-h.steered:
			h.t.Errorf("the steer was over before it was told: %v", err)
			h.steered <- err
		case <-time.After(50 * time.Millisecond):
		}
	}
	h.Host.Emit(e)
}

// TestSteerIsToldFirst: Steer returns when its event stands in the log. The
// run would add one of its own otherwise.
func TestSteerIsToldFirst(t *testing.T) {
	begin := []act{event(`{"type":"tool.execution_start","data":{"toolCallId":"c","toolName":"view","arguments":{}}}`), {Expect: `"mode":"immediate"`}}
	end := acts([]act{event(`{"type":"tool.execution_complete","data":{"toolCallId":"c","success":true,"result":{"content":"ok"}}}`), say("heard")}, stop)
	answer, taken := act{Answer: `{"messageId":"i2"}`}, event(`{"type":"user.message","data":{"messageId":"i2","content":"word"}}`)
	for name, order := range map[string][]act{"answered first": {answer, taken}, "taken first": {taken, answer}} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, acts(send("i1"), begin, order, end)...)
			c := f.open(t, nil)
			rec := backendtest.NewRecorder(backendtest.Turn{Host: backendtest.Host{Steer: backendtest.Steer{On: events.TypeToolCall, Text: "word"}}}, nil, nil)
			steered := make(chan error, 1)
			rec.OnSteer(func() {
				go func() { // ends with the steer
					steered <- c.(backends.Steerer).Steer(t.Context(), []events.Part{events.Text("word")})
				}()
			})
			_, err := c.Run(t.Context(), backends.Input{}, firstHost{rec, t, steered})
			rec.Close()
			if steerErr := <-steered; err != nil || steerErr != nil || count(rec, events.TypeSteered) != 1 {
				t.Errorf("%v, %v, %d steered", err, steerErr, count(rec, events.TypeSteered))
			}
		})
	}
}

// TestSteerRefused leaves the turn as it was.
func TestSteerRefused(t *testing.T) {
	f := newFake(t, acts(send("i1"), []act{
		event(`{"type":"tool.execution_start","data":{"toolCallId":"c","toolName":"view","arguments":{}}}`),
		{Expect: `"mode":"immediate"`},
		{Refuse: "not now"},
		event(`{"type":"tool.execution_complete","data":{"toolCallId":"c","success":true,"result":{"content":"ok"}}}`), say("first"),
	}, stop)...)
	c := f.open(t, nil)
	rec := backendtest.NewRecorder(backendtest.Turn{Host: backendtest.Host{Steer: backendtest.Steer{On: events.TypeToolCall, Text: "word"}}}, nil, nil)
	steered := make(chan error, 1)
	rec.OnSteer(func() {
		go func() { // ends with the steer
			steered <- c.(backends.Steerer).Steer(t.Context(), []events.Part{events.Text("word")})
		}()
	})
	_, err := c.Run(t.Context(), backends.Input{}, rec)
	rec.Close()
	if steerErr := <-steered; err != nil || class(steerErr) != events.ErrInvalidRequest {
		t.Errorf("%v; the steer: %v", err, steerErr)
	}
}
