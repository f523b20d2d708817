package claudecode

import "innerd/events"

// oddLine reports a line that is no JSON. Claude prints none; whoever shares
// its stdout may.
func (p *process) oddLine(t *turn, b []byte) {
	if p.odd++; !worthSaying(p.odd) {
		return
	}
	p.log.Warn("claude printed a line that is not JSON", "bytes", len(b), "count", p.odd)
	if t != nil {
		t.emit(events.Status{State: events.StateNotice, Detail: "claude printed a line that is not JSON: " + excerpt(b)})
	}
}

// worthSaying thins out what an agent can say without end: after the first
// ones, each time the count has doubled.
func worthSaying(count int) bool { return count <= maxNotices || count&(count-1) == 0 }

// notice reports what the reader of stdout could not give as a line.
func (p *process) notice(s string) {
	if p.odd++; !worthSaying(p.odd) {
		return
	}
	p.mu.Lock()
	t := p.turn
	p.mu.Unlock()
	p.log.Warn("claude's output is not all readable", "count", p.odd)
	if t != nil {
		t.emit(events.Status{State: events.StateNotice, Detail: s})
	}
}

func excerpt(b []byte) string {
	const limit = 200
	if len(b) > limit {
		return string(b[:limit]) + "…"
	}
	return string(b)
}
