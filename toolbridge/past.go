package toolbridge

import "innerd/events"

// pastLimit is how many resolved requests a server remembers: hosts retry
// within seconds, and a forgotten one is only "not found" instead of
// "duplicate".
const pastLimit = 8192

// resolved is what is remembered of a request that is over.
type resolved struct {
	id, owner, runID string
	kind             events.RequestKind
	body             [32]byte // of the host's answer; zero when the host gave none
}

// past is the memory of resolved requests, the oldest forgotten first.
type past struct {
	ring []resolved
	next int
	byID map[string]int
}

func newPast(n int) *past { return &past{ring: make([]resolved, 0, n), byID: map[string]int{}} }

func (p *past) add(r resolved) {
	if len(p.ring) < cap(p.ring) {
		p.byID[r.id] = len(p.ring)
		p.ring = append(p.ring, r)
		return
	}
	delete(p.byID, p.ring[p.next].id)
	p.ring[p.next] = r
	p.byID[r.id] = p.next
	p.next = (p.next + 1) % len(p.ring)
}

func (p *past) get(id string) (resolved, bool) {
	i, ok := p.byID[id]
	if !ok {
		return resolved{}, false
	}
	return p.ring[i], true
}
