package history

import "strings"

// Roles.
const (
	roleUser      = "user"
	roleAssistant = "assistant"
	roleTool      = "tool"
	roleSystem    = "system"
	roleDeveloper = "developer"
)

// Split takes the prompt, the last user message, out of a host's messages.
// What stands after it ends the history; system and developer messages are
// never history. Not ok: there is no user message. A summary is the prompt
// only where no other user message is there.
func Split(msgs []Message) (history []Message, prompt Message, ok bool) {
	at := -1
	for i, m := range msgs {
		if m.Role == roleUser && (at < 0 || !m.Summary || msgs[at].Summary) {
			at = i
		}
	}
	for i, m := range msgs {
		switch {
		case i == at:
			prompt, ok = m, true
		case m.Role == roleSystem || m.Role == roleDeveloper:
		default:
			history = append(history, m)
		}
	}
	return history, prompt, ok
}

// System is the text of the system and developer messages.
func System(msgs []Message) string {
	var texts []string
	for _, m := range msgs {
		if m.Role != roleSystem && m.Role != roleDeveloper {
			continue
		}
		if t := strings.TrimSpace(m.Text); t != "" {
			texts = append(texts, t)
		}
	}
	return strings.Join(texts, "\n\n")
}
