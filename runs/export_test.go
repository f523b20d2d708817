package runs

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
