package backendtest

// Row is one row of the table of agents: what a host loses or not by its
// choice. It holds for an agent when all of its parts do.
type Row struct {
	Group string
	Title string
	Cases []string // of this suite, seen at one backend
	HTTP  []string // tried through the whole server, by test/parity
}

// Rows are the rows of the table, in their order.
func Rows() []Row {
	var out []Row
	for _, g := range []struct {
		name string
		rows []Row
	}{
		{"What it says", sayRows()},
		{"Its own tools", nativeRows()},
		{"The host's tools", bridgeRows()},
		{"Asking", askRows()},
		{"Settings", settingRows()},
		{"Turns and memory", memoryRows()},
		{"When it goes wrong", failRows()},
		{"Safety", safetyRows()},
	} {
		for _, r := range g.rows {
			r.Group = g.name
			out = append(out, r)
		}
	}
	return out
}

func row(title string, cases ...string) Row { return Row{Title: title, Cases: cases} }

// over adds what is tried through the whole server.
func (r Row) over(http ...string) Row {
	r.HTTP = http
	return r
}

func sayRows() []Row {
	return []Row{
		row("Streamed text", "text", "long-text", "odd-characters"),
		row("Streamed reasoning", "reasoning"),
		row("Equal deltas are both text", "equal-deltas"),
		row("A message equals its deltas", "message-equals-deltas"),
		row("A retry discards text and reasoning", "retry-discarded", "retry-discards-reasoning"),
		row("Why it ended: limit, refusal", "reason-max-tokens", "reason-refusal"),
		row("Usage: disjoint, of this run alone", "usage-of-this-run", "usage-cached", "usage-reasoning", "usage-of-model-turns"),
		row("Cost", "usage-cost"),
		row("Premium requests", "usage-premium"),
		row("Duration, time to first token", "usage-times"),
	}
}

func nativeRows() []Row {
	return []Row{
		row("A call with input, output, exit code", "native-tool", "native-tool-fails"),
		row("A file that is made or changed, with its diff", "file-create", "file-edit"),
		row("A file that is deleted or moved", "file-delete", "file-move"),
		row("Files of an added directory (`add_dirs`)", "add-dirs", "add-dirs-told"),
		row("A sub-agent is shown", "subagent"),
		row("Background work is ended", "background-ended"),
		row("Background work is waited for", "background-waited"),
	}
}

func bridgeRows() []Row {
	return []Row{
		row("A result of text", "call-text", "call-empty", "call-odd-characters"),
		row("An error", "call-error"),
		row("An image", "call-image"),
		row("A result of 1 MiB", "call-1-mib", "big-results-and-output").over("bridged-1-mib-whole-in-log"),
		row("A call that takes 90 s, 12 min", "call-2-s", "call-90-s", "call-12-min"),
		row("8 calls in parallel", "calls-8-parallel"),
		row("A call is canceled", "cancel-in-bridged-call"),
		row("The host goes away and comes back").over("host-away-and-back"),
		row("The set of tools changes between turns", "tools-changed"),
		row("A name that its own tool has too", "clashing-name"),
		row("Two conversations at once with equal call ids", "two-conversations").over("conversations-equal-call-ids", "conversations-ten-at-once"),
	}
}

func askRows() []Row {
	return []Row{
		row("Permission is asked for every tool of its own", "permission-every-native-tool"),
		row("Allow", "permission-allowed"),
		row("Allow for the conversation", "permission-asked-the-same").over("allow-for-the-conversation"),
		row("Deny", "permission-denied", "cancel-in-permission"),
		row("Deny, and the model reads why", "permission-denied-message"),
		row("No answer is a deny", "permission-expired"),
		row("A question to the user", "question", "question-refused"),
	}
}

func settingRows() []Row {
	return []Row{
		row("System message, and a new one between turns", "system-text"),
		row("CLAUDE.md, AGENTS.md: read by innerd alone", "project-files-unread").over("project-instructions"),
		row("An image in", "prompt-with-image"),
		row("A file in", "prompt-with-file"),
		row("Audio or video in, as a file with a note", "prompt-with-audio", "prompt-with-video"),
		row("A model is chosen, and changed", "model-chosen"),
		row("Effort", "effort"),
		row("Structured output", "structured-output"),
		row("`max_turns`", "max-turns"),
		row("`tool_call_limit`").over("tool-call-limit"),
		row("`tool_choice`", "tool-choice-one").over("tool-choice-none"),
		row("`max_cost_usd`", "max-cost").over("max-cost-usd"),
		row("A prompt is text, never a command", "slash-and-at"),
	}
}

func memoryRows() []Row {
	return []Row{
		row("Several model turns in one run", "calls-in-a-row"),
		row("The second turn goes on, in the same process", "second-turn"),
		row("Steer", "steer-in-text", "steer-in-native-tool").over("steer"),
		row("A queued follow-up").over("queued-follow-up"),
		row("History: continue, tell, new; each text once at the model", "history-told-once").over("history-continue", "history-tell", "history-new"),
		row("Resume after the conversation was closed, the server restarted", "resume-after-close", "resume-after-restart"),
		row("Resume after the process died", "resume-after-kill", "resume-after-crash"),
		row("Resume after the adapter was killed").over("resume-after-adapter-killed"),
		row("Resume from a copy of the state directory and the agent home", "resume-from-copy").over("resume-from-copy-of-both"),
		row("Compaction on request", "compact-on-request").over("compact"),
		row("Compaction of its own is shown", "compact-by-itself"),
		row("Cancel in text", "cancel-in-text"),
		row("Cancel in a tool of its own", "cancel-in-native-tool"),
		row("Cancel before the first byte", "cancel-before-first-byte"),
	}
}

func failRows() []Row {
	return []Row{
		row("A bad key", "error-auth").over("error-bad-key"),
		row("No login", "no-login").over("error-no-login"),
		row("A rate limit, with its time", "error-rate_limit", "error-rate-limit-time").over("error-rate-limit"),
		row("Quota", "error-quota").over("error-quota"),
		row("Overloaded", "error-overloaded", "error-then-works").over("error-overloaded"),
		row("Unknown model", "error-model_unavailable").over("error-unknown-model"),
		row("Context too long", "error-context_length").over("error-context-too-long"),
		row("Other failures of the provider", "error-invalid_request", "error-internal"),
		row("A refused connection", "error-refused").over("error-refused-connection"),
		row("A stream that is cut each time", "error-cut-stream").over("error-cut-stream"),
		row("No first byte", "no-first-byte").over("error-no-first-byte"),
		row("A crash in a turn", "crash").over("crash-in-a-turn"),
		row("A fault of innerd's own ends that run alone", "fault-of-innerd"),
		row("An empty turn is no success", "empty-turn"),
		row("Noise on its stdout", "line-64-mib", "line-not-json", "line-unknown-event", "deaf-agent"),
	}
}

func safetyRows() []Row {
	return []Row{
		row("A hostile repository: no hook runs, no program starts, no key goes elsewhere", "hostile-repository").over("hostile-repository-served"),
		row("No traffic to the outside").over("no-outside-traffic"),
		row("The key is found nowhere but in the request to the model").over("canary-key"),
	}
}

// HTTPNames are the names of what test/parity tries, as OpenTable wants them.
func HTTPNames() (out []string) {
	for _, r := range Rows() {
		out = append(out, r.HTTP...)
	}
	return out
}
