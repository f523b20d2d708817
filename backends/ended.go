package backends

import "sync"

// maxEnded is how many ids are remembered: what comes late comes soon.
const maxEnded = 1000

// Ended remembers, by the agent's own ids, what a run was about that has ended:
// what the agent says of it later is nobody's, least of all the next run's. The
// zero value is ready; safe for concurrent use.
type Ended struct {
	mu    sync.Mutex
	ids   map[string]bool
	order []string
}

// Add remembers ids. Empty ones are none.
func (e *Ended) Add(ids ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ids == nil {
		e.ids = map[string]bool{}
	}
	for _, id := range ids {
		if id == "" || e.ids[id] {
			continue
		}
		e.ids[id] = true
		e.order = append(e.order, id)
		if len(e.order) > maxEnded {
			delete(e.ids, e.order[0])
			e.order = e.order[1:]
		}
	}
}

// Has reports whether an id is remembered.
func (e *Ended) Has(id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ids[id]
}
