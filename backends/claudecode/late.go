package claudecode

// Claude's lines name no turn. But it says when it begins with an input, before
// anything comes of it; and a sub-agent's lines name the call that started it.

// late reports whether a line is of a turn that has ended, or of one that
// claude had by itself. The reader calls it.
func (t *turn) late(l *line) bool {
	switch {
	case l.Type == lineLifecycle:
		t.begun = t.begun || l.CommandUUID == t.uuid && l.State != "queued"
		return false
	case l.Type == lineSystem && (l.Subtype == "background_tasks_changed" || l.Subtype == "session_state_changed"):
		return false // of claude as a whole
	case !t.begun:
		return true
	}
	return l.Parent != "" && !t.tr.started[l.Parent]
}

// tells notes that this claude says when it begins with an input, as one of
// another release may not, and counts what is for nobody.
func (p *process) tells(l *line, outside bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch l.Type {
	case lineLifecycle:
		p.begins = p.begins || l.State == "started"
	case lineStream, lineAssistant, lineUser, lineResult:
		if outside {
			p.late++
		}
	}
}

// sayLate tells how much was for nobody, when the process has ended.
func (p *process) sayLate() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.late > 0 {
		p.log.Info("claude has ended; some of what it said was for nobody", "late_events", p.late)
	}
}
