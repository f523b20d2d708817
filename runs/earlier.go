package runs

import "innerd/runs/history"

// decide compares what the agent knows with the history. A host that sends
// only what is new (Spec.Earlier) has no history to compare: its agent goes on
// in its session, and is told what was before only where it may have lost it.
func (m *Manager) decide(l *live, stored storedConversation, hist []history.Message, fresh bool) history.Decision {
	newSession := fresh || stored.Session.Zero()
	if l.spec.Earlier != nil {
		if !newSession && !unsure(stored.Record) {
			return history.Decision{Mode: history.Continue, Reason: "the host sends only what is new"}
		}
		hist = append(l.spec.Earlier(), hist...)
	}
	switch {
	case stored.Session.Zero():
		return history.Decision{Mode: history.New, Reason: "the conversation has no session yet", Tell: hist}
	case fresh:
		return history.Decision{Mode: history.New, Reason: "a new session was asked for, or the old one cannot go on", Tell: hist}
	}
	return history.Compare(stored.Record, hist, l.accepted)
}

func unsure(r history.Record) bool {
	for _, u := range r.Units {
		if u.Unsure {
			return true
		}
	}
	return false
}
