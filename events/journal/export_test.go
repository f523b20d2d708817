package journal

// Tick does what Run does each second.
func (s *Store) Tick() { s.tick() }

// Wanted does what Run does once an end has asked for folders; false: none has.
func (s *Store) Wanted() bool {
	select {
	case <-s.folders.want:
		s.fillFolders()
		return true
	default:
		return false
	}
}
