package runs

import (
	"innerd/events"
	"innerd/events/journal"
)

// What other bindings than the host-loop profile need of a run.

// Infos lists the owner's runs, newest first, without reading their logs.
func (m *Manager) Infos(owner string) []journal.Info {
	all := m.store.List()
	out := all[:0]
	for _, info := range all {
		if info.Owner == owner {
			out = append(out, info)
		}
	}
	return out
}

// Pending lists what the run waits for, oldest first; nothing once it is over.
func (r *Run) Pending() []Pending {
	if r.live == nil {
		return nil
	}
	var out []Pending
	for _, p := range r.live.sess.Pending() {
		out = append(out, pending(p))
	}
	return out
}

// Note puts into the log of a live run what a binding wants kept in its place
// among the events. ErrEnded.
func (r *Run) Note(d events.Data) error {
	if _, ended := r.log.Ended(); ended || r.live == nil {
		return ErrEnded
	}
	r.live.rec.record(d)
	return nil
}

// BackendNames lists the names of every backend.
func (m *Manager) BackendNames() []string { return m.names() }
