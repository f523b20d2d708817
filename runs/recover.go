package runs

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"innerd/events"
	"innerd/events/journal"
	"innerd/toolbridge"
)

// conversationAge is how long an unused conversation is kept on disk.
const conversationAge = 30 * 24 * time.Hour

// Recover ends the runs that an earlier server left open and loads the
// conversations it knew. Call it once, after the earlier server's children
// were ended and before any Start. It stops soon after ctx ends, with its cause;
// what was not done then is left to the next start.
func (m *Manager) Recover(ctx context.Context) error {
	var long sync.Mutex
	each(ctx, m.store.Unfinished(), 16, func(log *journal.Log) { // each waits for the disk
		err := closeLeft(ctx, log, &long)
		if ctx.Err() != nil && err != nil {
			return // the next start does it
		}
		if err != nil {
			m.log.Error("a run of the earlier server could not be closed", log.Meta().LogAttr(), "error", err)
			return
		}
		m.countLeft(log)
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for name, p := range m.probers { // so that the first run does not wait for it
		if m.opt.Default == "" || m.opt.Default == name {
			_, _ = p.status(ctx, 0)
		}
	}
	ids, err := m.store.ReadDir("conversations")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil // which there are is not known: nothing of theirs is old
	}
	each(ctx, ids, 2*runtime.GOMAXPROCS(0), m.loadConversation)
	if ctx.Err() != nil {
		return context.Cause(ctx) // which files are nobody's is not known
	}
	m.forgetOldFiles()
	return nil
}

// each calls f for every item, some at a time, and returns when all are done,
// or, when ctx ends, those that are on.
func each[T any](ctx context.Context, items []T, atOnce int, f func(T)) {
	work := make(chan T)
	var wg sync.WaitGroup
	for range min(atOnce, len(items)) {
		wg.Go(func() { // ends with the work
			for item := range work {
				f(item)
			}
		})
	}
	for _, item := range items {
		if ctx.Err() != nil {
			break
		}
		work <- item
	}
	close(work)
	wg.Wait()
}

// countLeft counts a run that an earlier server began.
func (m *Manager) countLeft(log *journal.Log) {
	end, _ := log.Ended()
	m.stats.end(log.Meta().Backend, Ending{end.State, end.ErrorType}, 0)
	m.log.Info("run of an earlier server ended", log.Meta().LogAttr(), "state", end.State, "error_type", end.ErrorType)
}

func (m *Manager) loadConversation(id string) {
	st, err := readConversation(m.store, id)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		m.log.Warn("a conversation's file is damaged and left alone", slog.Group("", "conversation", id, "backend", st.Backend), "error", err)
		return
	}
	b := m.backends[st.Backend]
	if b == nil {
		return // of a backend that is not set up now
	}
	if time.Since(st.LastUsed) > conversationAge {
		if err := removeConversation(m.store, id); err != nil {
			m.log.Warn("an old conversation was not removed", slog.Group("", "conversation", id, "backend", st.Backend), "error", err)
		}
		return // what its backend has kept for it is as old, and goes below
	}
	c := &conversation{id: id, owner: st.Owner, contextID: st.ContextID, backend: b, memory: toolbridge.NewMemory(), lastUsed: st.LastUsed}
	c.began.Store(!st.Session.Zero())
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, u := range st.Record.Units {
		m.accepted.Store(max(m.accepted.Load(), u.Added)) // the clock goes on where it was
	}
	m.conversations[id] = c
	if old := m.byKey[c.key()]; old == nil || old.lastUsed.Before(c.lastUsed) {
		m.byKey[c.key()] = c
	}
}

// closeLeft ends a log that has no end: open calls and requests, the open
// block, then the error and the end. Where ctx ends before, nothing is written.
// A start that was cut off while it wrote them left a part: of that nothing is
// written again. Where the open text is long, it holds the lock from there on.
func closeLeft(ctx context.Context, log *journal.Log, long sync.Locker) error {
	held := false
	defer func() {
		if held {
			long.Unlock()
		}
	}()
	left, err := leftIn(ctx, log, func() {
		if !held {
			long.Lock()
			held = true
		}
	})
	if err != nil {
		return err
	}
	if left.end != nil {
		return log.End(nil, journal.RunEnd{State: left.end.State, Reason: left.end.Reason, Ended: time.UnixMilli(left.ts)})
	}
	if last, e, ok := log.Promised(); ok { // its disk was full: what its readers were told stays so
		return log.End(append(left.close(log, noRoom), last...), e)
	}
	var closing []events.Data
	e, said := left.failed()
	if !said {
		e = events.NewError(events.ErrAdapterRestarted, "innerd was restarted while the turn ran")
		closing = append(left.close(log, e.Message), e)
	}
	end := journal.RunEnd{State: events.Failed, Reason: e.ErrorType, ErrorType: e.ErrorType, Ended: time.Now()}
	if e.ErrorType == events.ErrCanceled {
		end.State = events.Canceled
	}
	return log.End(append(closing, events.End{State: end.State, Reason: end.Reason, FilesChanged: left.files}), end)
}

// noRoom is why what was open was closed where the disk was full.
const noRoom = "the log could not take more"

// Closing gives the events that close what is open in a log as its readers see
// it, or begin it where they see nothing. A journal asks for them where it had
// to drop events, because its disk stayed full, before it writes a run's end.
func Closing(log *journal.Log) []events.Data {
	left, _ := leftIn(context.Background(), log, func() {}) // what can't be read can't be closed
	return left.close(log, noRoom)
}
