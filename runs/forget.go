package runs

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"innerd/backends"
)

// forgetFilesLocked has a conversation's backend remove what it has kept for
// one that nobody can come back to, when its agent is gone.
func (m *Manager) forgetFilesLocked(c *conversation) {
	f, ok := c.backend.(backends.Forgetter)
	if !ok {
		return
	}
	gone := c.gone
	m.backgroundLocked(func(context.Context) { // ends with the agent, which closeAgent bounds
		if gone != nil {
			<-gone
		}
		if err := f.Forget(c.id); err != nil {
			m.log.Warn("what was kept for a conversation was not removed", c.logAttr(), "error", err)
		}
	})
}

// forgetOldFiles has backends remove what they have kept for conversations that
// are not known any more: of servers that were killed, above all.
func (m *Manager) forgetOldFiles() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range m.opt.Backends {
		f, ok := b.(backends.Forgetter)
		if !ok {
			continue
		}
		m.backgroundLocked(func(context.Context) { // ends when they are removed
			if err := f.ForgetOld(time.Now().Add(-conversationAge), m.knows); err != nil {
				m.log.Warn("what was kept for old conversations was not removed", "backend", b.Name(), "error", err)
			}
		})
	}
}

// knows reports whether a conversation is one of this server's, which it also
// is where its file can't be read now, or is of a backend that is not set up.
func (m *Manager) knows(id string) bool {
	m.mu.Lock()
	loaded := m.conversations[id] != nil
	m.mu.Unlock()
	if loaded {
		return true
	}
	_, err := readConversation(m.store, id)
	return !errors.Is(err, fs.ErrNotExist)
}
