package simulate

import (
	"strconv"
	"strings"
	"time"

	"innerd/events"
)

const (
	floodBytes   = 40      // of a delta, unless the step says otherwise
	floodMessage = 1 << 20 // bytes of one message: a run keeps as much of each open one
	floodVaried  = 64      // how many different deltas there are
	floodCheck   = 1024    // deltas between two looks at the context
	stampBytes   = 20      // Unix nanoseconds and a space
)

// flood says very much very fast: deltas of a size, in messages of at most a
// mebibyte, at a rate or as fast as they are taken. With a stamp each begins
// with the time at which it was said, so that a reader knows how old it is.
type flood struct {
	deltas  int64
	bytes   int
	perSec  float64
	stamp   bool
	pattern string
}

func makeFlood(o *object) step {
	in := o.inner("flood", "deltas", "bytes", "per_second", "stamp")
	in.need("deltas")
	s := flood{deltas: in.integer("deltas", 1, maxCount), bytes: floodBytes, perSec: in.number("per_second")}
	if in.has("bytes") {
		s.bytes = int(in.integer("bytes", 1, maxPiece))
	}
	in.value("stamp", &s.stamp, "true or false")
	if s.stamp && s.bytes < stampBytes {
		in.r.fail(in.path("bytes"), "must be at least %d with a stamp", stampBytes)
	}
	if in.r.err == nil {
		s.pattern = floodPattern(s.bytes)
	}
	return s
}

const floodAlphabet = "abcdefghijklmnopqrstuvwxyz 0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ."

// floodPattern is the text whose windows the deltas are, so that neighbours
// differ and a reader can check each.
func floodPattern(bytes int) string {
	n := bytes + floodVaried
	return strings.Repeat(floodAlphabet, n/len(floodAlphabet)+1)[:n]
}

// FloodDelta is the text of the delta n, from 0, of a flood of deltas of the
// given size.
func FloodDelta(n int64, bytes int) string {
	at := int(n % floodVaried)
	return floodPattern(bytes)[at : at+bytes]
}

func (flood) says() bool { return true }

func (s flood) play(t *turn) error {
	perMessage := max(int64(floodMessage/s.bytes), 1)
	start, due := time.Now(), int64(0)
	t.usage.delta()
	for sent := int64(0); sent < s.deltas; {
		n := min(perMessage, s.deltas-sent)
		id := t.id("m")
		var err error
		if s.perSec > 0 {
			due, err = s.paced(t, id, start, due, sent, n)
		} else {
			err = s.burst(t, id, sent, n)
		}
		if err != nil {
			return err
		}
		sent += n
		ev := events.Message{MessageID: id}
		if sent == s.deltas {
			ev.FinishReason = t.finishReason()
		}
		t.emit(ev)
	}
	t.usage.said += s.deltas * int64(s.bytes)
	t.remember(KindSaid, "(a flood of "+strconv.FormatInt(s.deltas, 10)+" deltas)")
	return nil
}

// boxed makes the different deltas of a message once: an interface value per
// delta would be most of the garbage of a run.
func (s flood) boxed(id string) (out [floodVaried]events.Event) {
	for i := range out {
		out[i].Data = events.MessageDelta{Delta: s.pattern[i : i+s.bytes], MessageID: id}
	}
	return out
}

// event is the delta of a number.
func (s *flood) event(evs *[floodVaried]events.Event, id string, number int64) events.Event {
	if s.stamp {
		return s.stamped(id)
	}
	return evs[number%floodVaried]
}

func (s *flood) stamped(id string) events.Event {
	text := make([]byte, 0, s.bytes)
	text = append(strconv.AppendInt(text, time.Now().UnixNano(), 10), ' ')
	text = append(text, s.pattern[:s.bytes-len(text)]...)
	return events.Event{Data: events.MessageDelta{Delta: string(text), MessageID: id}}
}

// burst emits n deltas, of which the first has the number from.
func (s *flood) burst(t *turn, id string, from, n int64) error {
	evs := s.boxed(id)
	for i := range n {
		if i%floodCheck == 0 {
			if err := t.err(); err != nil {
				return err
			}
		}
		t.h.Emit(s.event(&evs, id, from+i))
	}
	return nil
}

// paced is burst at the step's rate. due is how many deltas the clock allowed
// when it was last read.
func (s *flood) paced(t *turn, id string, start time.Time, due, from, n int64) (int64, error) {
	evs := s.boxed(id)
	for i := range n {
		number := from + i
		for number >= due {
			elapsed := time.Since(start)
			if due = int64(elapsed.Seconds()*s.perSec) + 1; number < due {
				break
			}
			at := time.Duration(float64(number) / s.perSec * float64(time.Second))
			// At least a microsecond: rounding must not make the loop spin.
			if err := t.pause(max(at-elapsed, time.Microsecond)); err != nil {
				return due, err
			}
		}
		if i%floodCheck == 0 {
			if err := t.err(); err != nil {
				return due, err
			}
		}
		t.h.Emit(s.event(&evs, id, number))
	}
	return due, nil
}
