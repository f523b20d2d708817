package backends

import "sync"

// Observer is a Backend that counts what its agent says and this version does
// not understand.
type Observer interface {
	// Unknown gives how often each type came, by the agent's own names.
	Unknown() map[string]int64
}

const (
	maxUnknown = 256 // types of one agent
	maxName    = 100 // bytes of such a name
	otherTypes = "(others)"
)

// UnknownTypes is such a count. The zero value is ready; safe for concurrent
// use.
type UnknownTypes struct {
	mu sync.Mutex
	n  map[string]int64
}

// Add counts one; first reports whether the type had not come before. What an
// agent makes up without end is counted together.
func (u *UnknownTypes) Add(kind string) (first bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.n == nil {
		u.n = map[string]int64{}
	}
	kind = kind[:min(len(kind), maxName)]
	if _, known := u.n[kind]; !known && len(u.n) >= maxUnknown {
		kind = otherTypes
	}
	u.n[kind]++
	return u.n[kind] == 1
}

// Counts is a copy.
func (u *UnknownTypes) Counts() map[string]int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	out := make(map[string]int64, len(u.n))
	for k, v := range u.n {
		out[k] = v
	}
	return out
}
