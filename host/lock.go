package host

import (
	"context"
	"sync"
)

// locks is one lock for each conversation that somebody holds or waits for.
type locks struct {
	mu  sync.Mutex
	all map[string]*lock
}

type lock struct {
	turn chan struct{} // of one
	refs int
}

// holds is what a turn's context says of the lock that it has: a tool of the
// turn may itself begin one in the same conversation, and would wait for itself.
type holds struct{ id string }

// hold takes the lock of a conversation. "" has none: each run is its own.
func (l *locks) hold(ctx context.Context, id string) (held context.Context, release func(), err error) {
	if id == "" || id == "default" || ctx.Value(holds{id}) == l {
		return ctx, func() {}, nil
	}
	k := l.ref(id)
	select {
	case k.turn <- struct{}{}:
	case <-ctx.Done():
		l.unref(id)
		return nil, nil, context.Cause(ctx)
	}
	return context.WithValue(ctx, holds{id}, l), sync.OnceFunc(func() {
		<-k.turn
		l.unref(id)
	}), nil
}

func (l *locks) ref(id string) *lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.all[id]
	if k == nil {
		k = &lock{turn: make(chan struct{}, 1)}
		if l.all == nil {
			l.all = map[string]*lock{}
		}
		l.all[id] = k
	}
	k.refs++
	return k
}

func (l *locks) unref(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.all[id]
	if k.refs--; k.refs == 0 {
		delete(l.all, id)
	}
}
