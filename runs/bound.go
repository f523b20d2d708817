package runs

import (
	"context"
	"slices"
)

// How many conversations a server keeps. A cold one is a few hundred bytes in
// memory and a file; those used longest ago go first, some at a time.
const (
	maxConversations = 10_000
	goTogether       = 100
)

// boundLocked forgets conversations where there are too many; keep is one that
// was just made.
func (m *Manager) boundLocked(keep *conversation) {
	if len(m.byKey) <= m.lim.conversations {
		return
	}
	var cold []*conversation
	for _, c := range m.byKey {
		if c != keep && c.agent == nil && !c.busyLocked() {
			cold = append(cold, c)
		}
	}
	slices.SortFunc(cold, func(a, b *conversation) int { return a.lastUsed.Compare(b.lastUsed) })
	cold = cold[:min(len(cold), max(goTogether, len(m.byKey)-m.lim.conversations))]
	for _, c := range cold {
		m.removeLocked(c)
	}
	m.backgroundLocked(func(context.Context) { // ends when the files are gone
		for _, c := range cold {
			if err := removeConversation(m.store, c.id); err != nil {
				m.log.Warn("an old conversation was not removed", c.logAttr(), "error", err)
			}
		}
	})
}
