package runs

import "innerd/events/journal"

// WithConversations bounds how many conversations are kept.
func (l Limits) WithConversations(n int) Limits {
	l.conversations = n
	return l
}

// Loaded is how many conversations have their record in memory.
func (m *Manager) Loaded() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, c := range m.conversations {
		c.save.Lock()
		if c.state != nil {
			n++
		}
		c.save.Unlock()
	}
	return n
}

// NewerOf reads a conversation's files, and says how often the newer was
// written and when it was used.
func NewerOf(store *journal.Store, id string) (writes int64, err error) {
	st, err := readConversation(store, id)
	return st.Writes, err
}

// Sealed is what is written ahead for a record.
func Sealed(data string) string { return string(sealed([]byte(data))) }
