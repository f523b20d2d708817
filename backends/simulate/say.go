package simulate

import (
	"encoding/json"
	"iter"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"innerd/backends"
	"innerd/events"
)

// pace is how a text is cut and how fast it comes.
type pace struct {
	chunk int           // bytes; 0: words
	delay time.Duration // between pieces
}

func readPace(o *object) pace {
	p := pace{delay: o.ms("delay_ms")}
	if o.has("chunk_bytes") {
		p.chunk = int(o.integer("chunk_bytes", 1, maxPiece))
	}
	return p
}

// pieces cuts s. Each piece is a whole number of runes, so that one longer
// than the chunk stands alone.
func (p pace) pieces(s string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for s != "" {
			n := p.next(s)
			if !yield(s[:n]) {
				return
			}
			s = s[n:]
		}
	}
}

func (p pace) next(s string) int {
	if p.chunk == 0 {
		return nextWord(s)
	}
	if n := len(cut(s, p.chunk)); n > 0 {
		return n
	}
	_, n := utf8.DecodeRuneInString(s)
	return n
}

// nextWord is the length of the first word with the white space around it.
// Words of a hundred letters are cut, since some texts have no white space.
func nextWord(s string) int {
	word, space := false, false
	for i, r := range s {
		switch {
		case unicode.IsSpace(r):
			space = word
		case space || i > 100:
			return i
		default:
			word = true
		}
	}
	return len(s)
}

// cut shortens s to at most n bytes, between two runes.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// say says a whole message, and remembers it. An empty one is not said.
func (t *turn) say(text string, p pace) error {
	if err := t.utter(text, p); err != nil {
		return err
	}
	t.remember(KindSaid, text)
	return nil
}

// utter says a message that the session does not remember.
func (t *turn) utter(text string, p pace) error {
	if text == "" {
		return nil
	}
	id := t.id("m")
	if err := t.deltas(text, p, func(s string) events.Data { return events.MessageDelta{Delta: s, MessageID: id} }); err != nil {
		return err
	}
	t.usage.said += int64(len(text))
	t.output = text
	t.emit(events.Message{MessageID: id, FinishReason: t.finishReason()})
	return nil
}

// finishReason stands on the last message alone.
func (t *turn) finishReason() string {
	if !t.last {
		return ""
	}
	return t.reason
}

// deltas emits the pieces of a text; what is open when the turn is canceled is
// left for the run to close.
func (t *turn) deltas(text string, p pace, event func(string) events.Data) error {
	first := true
	for piece := range p.pieces(text) {
		if !first && p.delay > 0 {
			if err := t.pause(p.delay); err != nil {
				return err
			}
		} else if err := t.err(); err != nil {
			return err
		}
		first = false
		t.usage.delta()
		t.emit(event(piece))
	}
	return nil
}

// think says a block of reasoning.
func (t *turn) think(text string, p pace) error {
	if text == "" {
		return nil
	}
	id := t.id("r")
	if err := t.deltas(text, p, func(s string) events.Data { return events.ReasoningDelta{Delta: s, ReasoningID: id} }); err != nil {
		return err
	}
	t.usage.reasoned += int64(len(text))
	t.emit(events.Reasoning{ReasoningID: id})
	return nil
}

type textStep struct {
	text string
	pace pace
}

func makeText(o *object) step              { return textStep{o.str("text"), readPace(o)} }
func (s textStep) play(t *turn) error      { return t.say(s.text, s.pace) }
func (s textStep) says() bool              { return s.text != "" }
func makeReasoning(o *object) step         { return reasoningStep{o.str("reasoning"), readPace(o)} }
func (s reasoningStep) play(t *turn) error { return t.think(s.text, s.pace) }
func (s reasoningStep) says() bool         { return false }

type reasoningStep struct {
	text string
	pace pace
}

// told says as JSON what the session was told, for tests that see texts alone.
// It does not remember it, so that the next one does not hold it twice.
type told struct{}

func (told) says() bool { return true }

func (told) play(t *turn) error {
	raw, err := json.Marshal(t.c.session.Told)
	if err != nil {
		return &backends.Error{Type: events.ErrInternal, Message: err.Error()}
	}
	return t.utter(string(raw), pace{chunk: 4096})
}

// finishStep sets how the turn ends, unless something else ends it.
type finishStep struct{ reason string }

func makeFinish(o *object) step {
	return finishStep{o.oneOf("finish", backends.ReasonEndTurn, backends.ReasonMaxTokens, backends.ReasonRefusal, backends.ReasonStopSequence)}
}

func (s finishStep) play(t *turn) error { t.reason = s.reason; return nil }
func (finishStep) says() bool           { return false }

// retry is a model stream that breaks off in the middle of a message and is
// asked for again.
type retry struct {
	text, reason, errorType string
	reasoning               string // it breaks off in this block instead
	wait                    time.Duration
	attempts                int
	pace                    pace
}

func makeRetry(o *object) step {
	in := o.inner("retry", "text", "reasoning", "reason", "error_type", "wait_ms", "attempts", "chunk_bytes", "delay_ms")
	s := retry{
		text: in.str("text"), reasoning: in.str("reasoning"), reason: in.str("reason"), errorType: in.oneOf("error_type", errorTypes...),
		wait: in.ms("wait_ms"), attempts: 1, pace: readPace(in),
	}
	if in.has("attempts") {
		s.attempts = int(in.integer("attempts", 1, 1000))
	}
	if s.text == "" {
		s.text = "This message was said twice and stands once."
	}
	if s.reason == "" {
		s.reason = "the model stream was cut"
	}
	if s.errorType == "" {
		s.errorType = events.ErrOverloaded
	}
	return s
}

func (retry) says() bool { return true }

func (s retry) play(t *turn) error {
	for i := range s.attempts {
		if err := s.breakOff(t); err != nil {
			return err
		}
		t.emit(events.Status{
			State: events.StateRetrying, Detail: s.reason, Attempt: i + 1,
			ErrorType: s.errorType, DelayMS: s.wait.Milliseconds(),
		})
		if err := t.pause(s.wait); err != nil {
			return err
		}
	}
	if err := t.think(s.reasoning, s.pace); err != nil {
		return err
	}
	return t.say(s.text, s.pace)
}

// breakOff says half of what is then taken back.
func (s retry) breakOff(t *turn) error {
	text := s.text
	if s.reasoning != "" {
		text = s.reasoning
	}
	half := cut(text, (len(text)+1)/2)
	if half == "" { // a single rune
		half = text
	}
	gone, id := events.Discarded{Reason: s.reason}, t.id("m")
	err := t.deltas(half, s.pace, func(d string) events.Data {
		if s.reasoning != "" {
			gone.ReasoningID = id
			return events.ReasoningDelta{Delta: d, ReasoningID: id}
		}
		gone.MessageID = id
		return events.MessageDelta{Delta: d, MessageID: id}
	})
	if err == nil {
		t.emit(gone)
	}
	return err
}

// words counts.
func words(s string) int { return len(strings.Fields(s)) }
