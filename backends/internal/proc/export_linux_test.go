package proc

// AgentOf is agentOf of what runs now; between is called when that was listed.
func AgentOf(child int, between func()) (map[int]bool, error) {
	all, _, err := processes()
	if err != nil {
		return nil, err
	}
	between()
	return agentOf(all, child)
}
