package simulate

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"innerd/backends"
	"innerd/events"
)

func jsonOf(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic("simulate: " + err.Error()) // only for maps of strings
	}
	return raw
}

// background is a command that runs on while the agent goes on. There is no
// command: it takes its time.
type background struct {
	command string
	took    time.Duration
	done    bool
}

func makeBackground(o *object) step {
	in := o.inner("background", "command", "ms", "done")
	s := background{command: in.str("command"), took: in.ms("ms")}
	in.value("done", &s.done, "true or false")
	return s
}

func (background) says() bool { return false }

func (s background) play(t *turn) error {
	if s.done {
		if err := t.settle(); err != nil || t.in.Set.Background == backends.BackgroundWait {
			return err
		}
		return errDone
	}
	id := t.callID()
	t.emit(events.ToolCall{ID: id, Name: "shell", Input: jsonOf(map[string]string{"command": s.command})})
	t.later = append(t.later, running{id, time.Now().Add(s.took)})
	t.rounds++
	return nil
}

// running is work in the background.
type running struct {
	id  string
	end time.Time
}

// settle waits for the work in the background, if the host wants that, and
// ends what still runs.
func (t *turn) settle() error {
	work := t.later
	t.later = nil
	for i, w := range work {
		done := events.ToolComplete{ID: w.id, Name: "shell", Success: true}
		if left := time.Until(w.end); left > 0 {
			if t.in.Set.Background != backends.BackgroundWait {
				done.Success, done.Result = false, "it still ran when the turn was over, and was ended"
			} else if err := t.pause(left); err != nil {
				t.later = work[i:]
				return err
			}
		}
		t.emit(done)
	}
	return nil
}

// compactStep is the agent's shortening its memory by itself.
type compactStep struct{ summary string }

func makeCompact(o *object) step {
	in := o.inner("compact", "summary", "auto")
	var auto bool
	in.value("auto", &auto, "true or false")
	return compactStep{in.str("summary")}
}

func (compactStep) says() bool { return false }

func (s compactStep) play(t *turn) error {
	t.emit(events.Status{State: events.StateCompacting})
	t.c.session.compact(s.summary)
	return nil
}

// compact puts a summary in the place of all but the last prompt.
func (s *session) compact(summary string) {
	var prompts []string
	keep := len(s.Told.Entries)
	if n := keep; n > 0 && s.Told.Entries[n-1].Kind == KindPrompt {
		keep = n - 1
	}
	for _, e := range s.Told.Entries[:keep] {
		if e.Kind == KindPrompt || e.Kind == KindHistory {
			prompts = append(prompts, cut(e.Text+heard(e.Parts), 200))
		}
	}
	if summary == "" {
		summary = fmt.Sprintf("Of what was said before, in short: %s", strings.Join(prompts, " / "))
	}
	rest := slices.Clone(s.Told.Entries[keep:])
	s.Told.Entries = append([]Entry{{Turn: s.Told.Turns, Kind: KindHistory, Text: summary}}, rest...)
}

// Compact implements backends.Compacter.
func (c *conversation) Compact(ctx context.Context) error {
	select {
	case c.running <- struct{}{}:
	case <-ctx.Done():
		return wrap(context.Cause(ctx))
	}
	defer func() { <-c.running }()
	if c.over() {
		return failure(errClosed)
	}
	if c.cfg.Stray != nil {
		c.cfg.Stray(events.Event{Data: events.Status{State: events.StateCompacting}})
	}
	c.session.compact("")
	if err := c.b.store.save(c.session, true); err != nil {
		return unwritten(err)
	}
	return nil
}

// steering is what the running turn was told meanwhile.
type steering struct {
	mu    sync.Mutex
	open  bool
	given [][]events.Part
}

// begin and end say whether there is a turn; end reports false, and leaves it
// open, where something was given that the turn has not answered.
func (s *steering) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = true
}

func (s *steering) end(whatever bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.given) > 0 && !whatever {
		return false
	}
	s.open, s.given = false, nil
	return true
}

func (s *steering) take() [][]events.Part {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.given
	s.given = nil
	return out
}

// Steer implements backends.Steerer: the turn reads it before its next step.
func (c *conversation) Steer(_ context.Context, parts []events.Part) error {
	c.steering.mu.Lock()
	defer c.steering.mu.Unlock()
	if !c.steering.open {
		return backends.ErrTooLate
	}
	c.steering.given = append(c.steering.given, slices.Clone(parts))
	return nil
}

// steered takes what was given meanwhile.
func (t *turn) steered() (some bool) {
	for _, parts := range t.c.steering.take() {
		t.remember(KindPrompt, "", parts...)
		some = true
	}
	return some
}

// answerSteers answers what came after the last step.
func (t *turn) answerSteers() error {
	for !t.c.steering.end(false) {
		if t.steered() {
			if err := t.say("I was told that while I worked.", pace{}); err != nil {
				return err
			}
		}
	}
	return nil
}

// nothing is a step that only says where a model's answer would end, or that
// its context is nearly full.
type nothing struct{ round bool }

func (nothing) says() bool { return false }

func (s nothing) play(t *turn) error {
	if s.round {
		t.rounds++
	}
	return nil
}

// output is the answer to a schema.
type output struct{ text string }

func makeOutput(o *object) step {
	if _, ok := o.fields["output"]; ok && !json.Valid(o.fields["output"]) {
		o.r.fail(o.path("output"), "must be JSON")
	}
	return output{string(o.fields["output"])}
}

func (output) says() bool           { return true }
func (s output) play(t *turn) error { return t.say(s.text, pace{}) }

// cutStream is a model stream that breaks off each time it is asked for.
type cutStream struct{ text string }

func makeCut(o *object) step {
	in := o.inner("cut", "text")
	in.need("text")
	return cutStream{in.str("text")}
}

func (cutStream) says() bool { return true }

func (s cutStream) play(t *turn) error {
	const reason, attempts = "the model stream was cut", 2
	for i := range attempts {
		id := t.id("m")
		if err := t.deltas(s.text, pace{}, func(d string) events.Data { return events.MessageDelta{Delta: d, MessageID: id} }); err != nil {
			return err
		}
		t.emit(events.Discarded{MessageID: id, Reason: reason})
		if i < attempts-1 {
			t.emit(events.Status{State: events.StateRetrying, Detail: reason, Attempt: i + 1, ErrorType: events.ErrOverloaded})
		}
	}
	return &backends.Error{Type: events.ErrOverloaded, Message: reason + " each time"}
}

// refused is a model whose address refuses connections, and is tried again once.
type refused struct{}

func makeRefused(o *object) step {
	o.yes("refused")
	return refused{}
}

func (refused) says() bool { return true }

func (refused) play(t *turn) error {
	const message = "the model's address refuses connections"
	t.emit(events.Status{State: events.StateRetrying, Detail: message, Attempt: 1, ErrorType: events.ErrOverloaded})
	return &backends.Error{Type: events.ErrOverloaded, Message: message}
}
