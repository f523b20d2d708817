package a2a_test

import (
	"context"
	"strings"
	"testing"

	"innerd/adapter/a2a"
	"innerd/adapter/a2a/spec"
	"innerd/backends"
	"innerd/backends/simulate"
)

// lingering is an agent whose turn does not end before it may.
type lingering struct {
	backends.Backend
	begun, stopping, may chan struct{}
}

func (l lingering) Open(ctx context.Context, cfg backends.Config) (backends.Conversation, error) {
	c, err := l.Backend.Open(ctx, cfg)
	return lingers{c, l}, err
}

type lingers struct {
	backends.Conversation
	l lingering
}

func (c lingers) Run(ctx context.Context, _ backends.Input, _ backends.Host) (backends.Outcome, error) {
	close(c.l.begun)
	<-ctx.Done()
	close(c.l.stopping)
	<-c.l.may
	return backends.Outcome{}, context.Cause(ctx)
}

// Who speaks to a task while it is being canceled is told that, not that it has
// ended: it has not yet.
func TestWhatIsSaidOfATaskThatIsBeingCanceled(t *testing.T) {
	l := lingering{simulate.New(&simulate.Options{}), make(chan struct{}), make(chan struct{}), make(chan struct{})}
	s := servedBy(t, l, "", &places{}, nil)
	req := words(t, "", "go", "")
	req.Configuration = &spec.SendConfiguration{ReturnImmediately: true}
	r, err := s.SendMessage(t.Context(), a2a.Call{}, req)
	if err != nil {
		t.Fatal(err)
	}
	<-l.begun
	canceled := make(chan error, 1)
	go func() { // ends with the cancel
		_, err := s.CancelTask(t.Context(), a2a.Call{}, &spec.CancelTaskRequest{ID: r.Task.ID})
		canceled <- err
	}()
	<-l.stopping
	_, err = s.SendMessage(t.Context(), a2a.Call{}, words(t, r.Task.ID, "more", ""))
	if err == nil || !strings.Contains(err.Error(), "is being canceled; send a message with its contextId alone") {
		t.Errorf("while it is: %v", err)
	}
	close(l.may)
	if err := <-canceled; err != nil {
		t.Error(err)
	}
	_, err = s.SendMessage(t.Context(), a2a.Call{}, words(t, r.Task.ID, "more", ""))
	if err == nil || !strings.Contains(err.Error(), "has ended; send a message with its contextId alone") {
		t.Errorf("afterwards: %v", err)
	}
}
