package runs

import (
	"context"
	"errors"
	"time"

	"github.com/sony/gobreaker/v2"

	"innerd/backends"
	"innerd/events"
)

// breaker keeps a machine that cannot start an agent from trying for every
// run: after 5 failures in a row starts are refused for 10 s, then one tries.
// It is around the start alone, never around a turn.
type breaker struct {
	cb *gobreaker.TwoStepCircuitBreaker[struct{}]
}

func newBreaker(name string) *breaker {
	return &breaker{gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name: name, Timeout: 10 * time.Second,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= 5 },
		IsSuccessful: func(err error) bool {
			var be *backends.Error
			// What the host or its key did wrong says nothing of the machine.
			return !errors.As(err, &be) || (be.Type != events.ErrBackendCrashed && be.Type != events.ErrInternal)
		},
		IsExcluded: func(err error) bool {
			return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
		},
	})}
}

// guard calls open unless the breaker refuses.
func (b *breaker) guard(open func() (backends.Conversation, error)) (backends.Conversation, error) {
	done, err := b.cb.Allow()
	if err != nil {
		return nil, &backends.Error{Type: events.ErrBackendUnavailable, Message: "it failed to start several times in a row; tried again in some seconds"}
	}
	conv, err := open()
	done(err)
	return conv, err
}
