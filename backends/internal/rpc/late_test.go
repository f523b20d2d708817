package rpc_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"innerd/backends/internal/rpc"
)

// TestLate: a result that comes when nobody waits for it is given to who undoes it.
func TestLate(t *testing.T) {
	var sent []byte
	p := rpc.New(rpc.Options{Send: func(frame []byte) error { sent = frame; return nil }})
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	var undone string
	err := p.CallLate(ctx, "thread/start", nil, nil, func(raw json.RawMessage) { undone = string(raw) })
	if !errors.Is(err, why) || len(sent) == 0 {
		t.Fatal(err)
	}
	p.Handle([]byte(`{"id":1,"result":{"thread":7}}`))
	if undone != `{"thread":7}` {
		t.Errorf("undone: %q", undone)
	}
}

// TestHandling: while a message is being handled, what came after it is not known.
func TestHandling(t *testing.T) {
	in, out := make(chan struct{}), make(chan struct{})
	p := rpc.New(rpc.Options{Notification: func(string, json.RawMessage) { close(in); <-out }})
	if p.Handling() {
		t.Error("it handles nothing")
	}
	done := make(chan struct{})
	go func() { // ends when out is closed
		defer close(done)
		p.Handle([]byte(`{"method":"said"}`))
	}()
	<-in
	if !p.Handling() {
		t.Error("it is at work")
	}
	close(out)
	<-done
	if p.Handling() {
		t.Error("it has ended")
	}
}
