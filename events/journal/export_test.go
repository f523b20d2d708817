package journal

// Tick does what Run does each second.
func (s *Store) Tick() { s.tick() }
