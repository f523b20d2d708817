package proc

// Running counts the children that have not ended.
func (s *Supervisor) Running() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.children)
}
