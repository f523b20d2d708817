package copilot

import "sync"

// halt is the stop of a turn. An abort that comes before copilot has answered
// the send is lost, so that it waits for that; and it does not wait for
// anything else, least of all for a log that is waiting for its disk: so it
// has a lock of its own.
type halt struct {
	mu    sync.Mutex
	asked bool // the turn shall stop
	sent  bool // copilot has answered the send
}

// ask has abort called, now or when the send is answered; only the first does.
func (h *halt) ask(abort func()) {
	h.mu.Lock()
	first, sent := !h.asked, h.sent
	h.asked = true
	h.mu.Unlock()
	if first && sent {
		abort()
	}
}

// answered says that copilot has answered the send.
func (h *halt) answered(abort func()) {
	h.mu.Lock()
	h.sent = true
	asked := h.asked
	h.mu.Unlock()
	if asked {
		abort()
	}
}

// on reports whether the turn shall stop.
func (h *halt) on() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.asked
}
