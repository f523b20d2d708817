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
// were ended and before any Start.
func (m *Manager) Recover(ctx context.Context) error {
	each(m.store.Unfinished(), 16, func(log *journal.Log) { // each waits for the disk
		if err := closeLeft(log); err != nil {
			m.log.Error("a run of the earlier server could not be closed", log.Meta().LogAttr(), "error", err)
			return
		}
		m.countLeft(log)
	})
	for name, p := range m.probers { // so that the first run does not wait for it
		if m.opt.Default == "" || m.opt.Default == name {
			_, _ = p.status(ctx, 0)
		}
	}
	ids, err := m.store.ReadDir("conversations")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil // which there are is not known: nothing of theirs is old
	}
	each(ids, 2*runtime.GOMAXPROCS(0), m.loadConversation)
	m.forgetOldFiles()
	return context.Cause(ctx)
}

// each calls f for every item, some at a time, and returns when all are done.
func each[T any](items []T, atOnce int, f func(T)) {
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
// block, then the error and the end.
func closeLeft(log *journal.Log) error {
	left := leftovers{}
	for e, err := range log.Snapshot(0, nil) {
		if err != nil {
			return err
		}
		left.see(e)
	}
	if left.ended {
		return log.End(nil, journal.RunEnd{State: left.end.State, Reason: left.end.Reason, Ended: time.UnixMilli(left.ts)})
	}
	if last, e, ok := log.Promised(); ok { // its disk was full: what its readers were told stays so
		return log.End(append(Closing(log), last...), e)
	}
	e := events.NewError(events.ErrAdapterRestarted, "innerd was restarted while the turn ran")
	closing := append(left.closing(e.Message), e, events.End{State: events.Failed, Reason: e.ErrorType, FilesChanged: left.files})
	return log.End(append(left.beginning(log), closing...), journal.RunEnd{
		State: events.Failed, Reason: e.ErrorType, ErrorType: e.ErrorType, Ended: time.Now(),
	})
}

// Closing gives the events that close what is open in a log as its readers see
// it, or begin it where they see nothing. A journal asks for them where it had
// to drop events, because its disk stayed full, before it writes a run's end.
func Closing(log *journal.Log) []events.Data {
	left := leftovers{}
	for e, err := range log.Snapshot(0, nil) {
		if err != nil {
			break // what can't be read can't be closed
		}
		left.see(e)
	}
	return append(left.beginning(log), left.closing("the log could not take more")...)
}

// leftovers is what a log without an end left open.
type leftovers struct {
	ids   []string // of open calls and requests, oldest first
	open  map[string]func(why string) events.Data
	kind  events.Type
	id    string
	sum   []byte
	files []string
	seen  bool
	ended bool
	end   events.End
	ts    int64
}

// beginning is the event that every run begins with, where the log has none.
func (l *leftovers) beginning(log *journal.Log) []events.Data {
	if l.seen {
		return nil
	}
	m := log.Meta()
	return []events.Data{events.TaskID{TaskID: m.ID, ContextID: m.ContextID, Backend: m.Backend}}
}

func (l *leftovers) put(id string, end func(string) events.Data) {
	if l.open == nil {
		l.open = map[string]func(string) events.Data{}
	}
	l.open[id] = end
	l.ids = append(l.ids, id)
}

func (l *leftovers) see(e events.Event) {
	l.seen = true
	switch d := e.Data.(type) {
	case events.MessageDelta:
		l.delta(events.TypeMessage, d.MessageID, d.Delta)
	case events.ReasoningDelta:
		l.delta(events.TypeReasoning, d.ReasoningID, d.Delta)
	case events.Message, events.Reasoning, events.Discarded:
		l.kind, l.sum = "", nil
	case events.ToolCall:
		l.put(d.ID, func(why string) events.Data { return events.ToolComplete{ID: d.ID, Name: d.Name, Result: why} })
	case events.ToolComplete:
		delete(l.open, d.ID)
	case events.ToolRequest:
		l.put(d.ToolCallID, func(string) events.Data {
			return events.ToolResolved{ToolCallID: d.ToolCallID, Outcome: events.OutcomeCanceled}
		})
	case events.ToolResolved:
		delete(l.open, d.ToolCallID)
	case events.PermissionRequest:
		l.put(d.RequestID, func(string) events.Data {
			return events.PermissionResolved{RequestID: d.RequestID, Outcome: events.OutcomeCanceled, By: "policy"}
		})
	case events.PermissionResolved:
		delete(l.open, d.RequestID)
	case events.InputRequired:
		l.put(d.RequestID, func(string) events.Data {
			return events.InputResolved{RequestID: d.RequestID, Outcome: events.OutcomeCanceled}
		})
	case events.InputResolved:
		delete(l.open, d.RequestID)
	case events.FileChange:
		l.files = appendOnce(l.files, d.Path)
	case events.End:
		l.ended, l.end, l.ts = true, d, e.TS
	}
}

func (l *leftovers) delta(kind events.Type, id, delta string) {
	if l.kind != kind || l.id != id {
		l.kind, l.id, l.sum = kind, id, nil
	}
	l.sum = append(l.sum, delta...)
}

func (l *leftovers) closing(why string) []events.Data {
	var out []events.Data
	for _, id := range l.ids {
		if end := l.open[id]; end != nil {
			out = append(out, end(why))
			delete(l.open, id)
		}
	}
	switch l.kind {
	case events.TypeMessage:
		out = append(out, events.Message{Content: string(l.sum), MessageID: l.id, Partial: true})
	case events.TypeReasoning:
		out = append(out, events.Reasoning{Content: string(l.sum), ReasoningID: l.id})
	}
	return out
}

func appendOnce(list []string, s string) []string {
	for _, have := range list {
		if have == s {
			return list
		}
	}
	return append(list, s)
}
