package toolbridge

import (
	"log/slog"

	"innerd/events"
)

// OpenRequests counts the requests that wait for their hosts, by kind.
func (b *Bridge) OpenRequests() map[events.RequestKind]int {
	out := map[events.RequestKind]int{events.KindTool: 0, events.KindPermission: 0, events.KindQuestion: 0}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.open {
		out[p.r.Kind]++
	}
	return out
}

// logAttr names the run in a line of the log.
func (s *Session) logAttr() slog.Attr {
	return slog.Group("", "run", s.c.RunID, "conversation", s.c.ConversationID, "backend", s.c.Backend)
}

// logAttr names the conversation in a line of the log: which run has it now
// may be what cannot be said.
func (e *endpoint) logAttr() slog.Attr { return slog.String("conversation", e.id) }
