package simulate

import (
	"time"

	"innerd/backends"
	"innerd/events"
)

// errorTypes are the words an error step may use.
var errorTypes = []string{
	events.ErrAuth, events.ErrRateLimit, events.ErrQuota, events.ErrOverloaded, events.ErrInvalidRequest,
	events.ErrContextLength, events.ErrModelUnavailable, events.ErrBackendUnavailable,
	events.ErrBackendCrashed, events.ErrTimeout, events.ErrInternal,
}

// errorStep is a failure of the model; the conversation goes on.
type errorStep struct{ err backends.Error }

func makeError(o *object) step {
	in := o.inner("error", "message", "error_type", "status", "retry_after_s")
	e := backends.Error{
		Message: in.str("message"), Type: in.oneOf("error_type", errorTypes...),
		Status:     int(in.integer("status", 100, 599)),
		RetryAfter: time.Duration(min(in.number("retry_after_s"), maxWait.Seconds()) * float64(time.Second)),
	}
	if e.Type == "" {
		e.Type = events.ErrInternal
	}
	return errorStep{e}
}

func (s errorStep) play(*turn) error { e := s.err; return &e }
func (errorStep) says() bool         { return true }

// stall says nothing until the turn is canceled.
type stall struct{}

func (stall) says() bool { return true }

func (stall) play(t *turn) error {
	<-t.ctx.Done()
	return t.err()
}

// empty ends the turn where it stands.
type empty struct{}

func (empty) says() bool       { return false }
func (empty) play(*turn) error { return errDone }

type sleep struct{ d time.Duration }

func makeSleep(o *object) step     { return sleep{o.ms("sleep_ms")} }
func (s sleep) play(t *turn) error { return t.pause(s.d) }
func (sleep) says() bool           { return false }

// repeat plays its steps n times.
type repeat struct {
	n     int64
	steps []step
}

func makeRepeat(o *object) step {
	o.need("steps")
	s := repeat{n: o.integer("repeat", 0, maxCount)}
	if o.has("steps") {
		s.steps = o.r.steps(o.path("steps"), o.fields["steps"])
	}
	return s
}

func (s repeat) says() bool { return s.n > 0 && saysAny(s.steps) }

func (s repeat) play(t *turn) error {
	more := !t.last
	for i := range s.n {
		if err := t.err(); err != nil {
			return err
		}
		again := i < s.n-1 && saysAny(s.steps)
		if err := t.play(s.steps, more || again); err != nil {
			return err
		}
	}
	return nil
}
