package toolbridge

import (
	"crypto/sha256"
	"sync"

	"innerd/events"
)

// Who decided about a permission.
const (
	byHost    = "host"
	byPolicy  = "policy"
	byTimeout = "timeout"
)

// Permission modes, as backends name them. Any other word asks.
const (
	modeAuto = "auto"
	modeDeny = "deny"
)

func permissionOptions() []events.PermissionOption {
	return []events.PermissionOption{
		{ID: events.AllowOnce, Kind: events.AllowOnce, Label: "Allow once"},
		{ID: events.AllowAlways, Kind: events.AllowAlways, Label: "Always allow this input in this conversation"},
		{ID: events.Deny, Kind: events.Deny, Label: "Deny"},
	}
}

// policy answers a permission without the host, where it can.
func (s *Session) policy(p *Pending) (events.Answer, bool) {
	allowed := events.Answer{Outcome: events.OutcomeAllowed, By: byPolicy}
	switch s.c.Permission {
	case modeAuto, "":
		return allowed, true
	case modeDeny:
		return events.Answer{Outcome: events.OutcomeDenied, By: byPolicy, Message: "denied: permissions are not given in this run"}, true
	}
	if s.c.Memory.has(p.r.Tool, p.r.Input) {
		return allowed, true
	}
	return events.Answer{}, false
}

// decideLogLocked logs a permission and its resolution by policy at once. It
// was never open, so that no answer can come between.
func (s *Session) decideLogLocked(p *Pending, a events.Answer) {
	s.b.mu.Lock()
	closed, cause := s.closed, s.cause
	if !closed {
		p.state = stateOver
		s.b.past.add(p.over([32]byte{}))
	}
	s.b.mu.Unlock()
	if closed {
		s.b.resolve(p, canceled(cause))
		return
	}
	s.log(p.announcement())
	s.log(p.event(resolution{answer: a}))
	s.b.deliver(p, resolution{answer: a})
}

// Memory is what a conversation's user has allowed for good: a tool with
// exactly one input. Safe for use by several runs at the same time.
type Memory struct {
	mu   sync.Mutex
	keys map[[32]byte]struct{}
}

// NewMemory makes an empty memory.
func NewMemory() *Memory { return &Memory{keys: map[[32]byte]struct{}{}} }

func (m *Memory) has(tool string, input []byte) bool {
	if m == nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.keys[memoryKey(tool, input)]
	return ok
}

func (m *Memory) add(tool string, input []byte) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keys[memoryKey(tool, input)] = struct{}{}
}

func memoryKey(tool string, input []byte) [32]byte {
	h := sha256.New()
	h.Write([]byte(tool))
	h.Write([]byte{0})
	h.Write(canonical(input))
	return [32]byte(h.Sum(nil))
}
