package claudecode

// countUnknown counts a line that this package does not know, and says so once
// for each type.
func (p *process) countUnknown(l *line) {
	name := l.Type
	if l.Type == lineSystem || l.Type == lineControlRequest {
		name += "/" + orElse(l.Subtype, l.Request.Subtype)
	}
	if p.unknown.Add(name) {
		p.log.Info("claude printed an event of a type that is not known", "type", name)
	}
}

// Unknown implements backends.Observer.
func (b *Backend) Unknown() map[string]int64 { return b.unknown.Counts() }

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
