package codex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"innerd/backends"
	"innerd/backends/internal/rpc"
	"innerd/events"
)

// A codex that leaves a call unanswered which takes no model is stuck, and gets
// no new conversations. What has its process for itself ends it. In one that
// others share it may be that call alone which hangs, on a file system say,
// while their turns go on: as long as it answers a ping, or something has come
// for another conversation since the call, only the conversation is given up,
// for a run that is lost in vain is worse than a process too many. One that is
// dead to everybody is ended, and with it every run in it: they would never end.

// errUnanswered is the cause of a call's end whose time has passed.
var errUnanswered = errors.New("no answer in time")

// call asks, with a limit, for what needs no model. late undoes what comes when
// nobody waits for it; it may be nil. errUnanswered: no answer came.
func (s *server) call(ctx context.Context, method string, params, result any, late func(json.RawMessage)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := backends.Overdue(s.b.callLimit, s.peer.Handling, func() { cancel(errUnanswered) })
	defer stop()
	return s.peer.CallLate(ctx, method, params, result, late)
}

// call is that of the process; where no answer comes, the conversation is out
// of it, and the error is an *backends.Error.
func (c *conversation) call(ctx context.Context, s *server, method string, params, result any) error {
	return c.callLate(ctx, s, method, params, result, nil)
}

// callLate is call; late undoes what comes when nobody waits for it.
func (c *conversation) callLate(ctx context.Context, s *server, method string, params, result any, late func(json.RawMessage)) error {
	heard := s.heardBeside(c)
	err := s.call(ctx, method, params, result, late)
	if errors.Is(err, errUnanswered) {
		return c.unanswered(s, silence{method, c.b.callLimit}, heard)
	}
	return err
}

// silence is a call that was not answered, and for how long.
type silence struct {
	method string
	limit  time.Duration
}

func (x silence) String() string {
	return fmt.Sprintf("codex did not answer %s in %v", x.method, x.limit)
}

// unanswered takes the conversation out of a process that did not answer it;
// heard is what had come for others when it was asked. The next run gets
// another process.
func (c *conversation) unanswered(s *server, x silence, heard int64) *backends.Error {
	s.drop()
	why := x.String()
	if c.abandon(s, why, heard) {
		exit := backends.Exit(s.process().Exit())
		return crashed(exit, why+"; it was ended")
	}
	return &backends.Error{Type: events.ErrBackendCrashed, Message: why + "; its process lives on for others"}
}

// unsteered is what becomes of a steer without an answer. The turn goes on, if
// anything does.
func (s *server) unsteered(heard int64) error {
	s.drop()
	why := silence{"turn/steer", s.b.callLimit}.String()
	if !s.alive(func() bool { return s.heard.Load() != heard }) {
		s.kill(why + "; it was ended")
	}
	return &backends.Error{Type: events.ErrTimeout, Message: why}
}

// alive reports whether the process still answers calls, or has spoken, as heard
// tells. Where what it has said is still being handled, by a log that waits for
// its disk say, that is not known, and is taken for a yes.
func (s *server) alive(heard func() bool) bool {
	ctx, cancel := context.WithTimeout(context.Background(), pingLimit)
	defer cancel()
	var refused *rpc.Error
	err := s.peer.Call(ctx, "thread/loaded/list", struct{}{}, nil)
	return err == nil || errors.As(err, &refused) || s.peer.Handling() || heard()
}

// overdue tells the run of a call of its turn's that is not answered in time,
// unless what it was for has happened all the same. A compaction that has begun
// goes first, and takes a model.
func (t *turn) overdue(method string, limit time.Duration, done <-chan struct{}) (answered func()) {
	busy := func() bool { return t.s.peer.Handling() || t.c.compacting() }
	return backends.Overdue(limit, busy, func() {
		select {
		case <-done:
			return
		default:
		}
		select {
		case t.mute <- silence{method, limit}:
		default: // another one is told of
		}
	})
}

// compacting reports whether a compaction has begun and is not over.
func (c *conversation) compacting() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.compact != nil && c.own != ""
}
