package claudecode

import "sync"

// maxUnknown is how many types are told apart: what an agent prints must not
// fill the server's memory.
const maxUnknown = 100

// unknown counts what claude prints that this package does not know.
type unknown struct {
	mu sync.Mutex
	n  map[string]int64
}

func (u *unknown) add(l *line) {
	name := l.Type
	if l.Type == lineSystem || l.Type == lineControlRequest {
		name += "/" + orElse(l.Subtype, l.Request.Subtype)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.n == nil {
		u.n = map[string]int64{}
	}
	if _, ok := u.n[name]; !ok && len(u.n) >= maxUnknown {
		name = "other"
	}
	u.n[name]++
}

// Unknown is how often claude printed events of types that this version does
// not know, by type, since the server began. They are signs of life, and mean
// nothing else.
func (b *Backend) Unknown() map[string]int64 {
	b.unknown.mu.Lock()
	defer b.unknown.mu.Unlock()
	out := make(map[string]int64, len(b.unknown.n))
	for name, n := range b.unknown.n {
		out[name] = n
	}
	return out
}

// known are the types of lines that mean something here, or are known to mean
// nothing.
func known(l *line) bool {
	switch l.Type {
	case lineStream, lineAssistant, lineUser, lineResult, lineLifecycle, lineReset, lineToolProgress,
		lineControlResponse, lineControlCancel, "rate_limit_event", "keep_alive", "auth_status":
		return true
	case lineControlRequest:
		switch l.Request.Subtype {
		case "mcp_message", "can_use_tool", "hook_callback":
			return true
		}
	case lineSystem:
		switch l.Subtype {
		case "init", "status", "api_retry", "thinking_tokens", "permission_denied", "compact_boundary", "informational",
			"hook_started", "hook_response", "task_started", "task_progress", "task_updated", "task_notification",
			"background_tasks_changed", "session_state_changed", "session_title_changed", "model_fallback", "ui_invalidate":
			return true
		}
	}
	return false
}
