package runs

import (
	"strings"
	"unicode/utf8"

	"innerd/runs/history"
)

// A list shows of each run what tells it from the others: its last message and
// its prompt, each cut. All of 100 runs, with their messages and histories,
// could be gigabytes.
const (
	briefEvents  = 200       // of the end of the log, in which a message is looked for,
	briefBytes   = 256 << 10 // and so much of it: longer ones are not read
	briefMessage = 4 << 10   // bytes of it
	briefPrompt  = 256       // bytes; it is kept in memory, for every run
)

// Brief is the run as a list shows it; Truncated says that Task has more.
func (r *Run) Brief() (Task, error) {
	t := r.task()
	tail, err := r.log.Tail(briefBytes)
	if err != nil {
		return t, err
	}
	after := max(t.LastEventID-briefEvents, tail, r.log.Oldest()-1, 0)
	for e, err := range r.log.Snapshot(after, folded) {
		if err != nil {
			return t, err
		}
		t.fold(e)
	}
	t.Truncated = after > 0 || len(t.Messages) > 1
	if n := len(t.Messages); n > 0 {
		t.Messages = t.Messages[n-1:]
		m := &t.Messages[0]
		m.Content = t.cut(m.Content, briefMessage)
	}
	if len(t.Output) > briefMessage {
		t.Output, t.Truncated = nil, true
	}
	if prompt, whole := r.log.Meta().Prompt, r.log.Meta().PromptWhole; prompt != "" {
		t.History = []HistoryEntry{{Role: "user", Content: prompt}}
		t.Truncated = t.Truncated || !whole
	}
	return t, nil
}

func (t *Task) cut(s string, n int) string {
	out := cutText(s, n)
	t.Truncated = t.Truncated || len(out) < len(s)
	return out
}

// cutText is the first n bytes of a text, without a torn character.
func cutText(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// briefOf is what a list shows of a request; whole: that is all of it.
func briefOf(msgs []history.Message) (prompt string, whole bool) {
	whole = true
	for _, m := range msgs {
		if m.Role != "user" && m.Role != "assistant" {
			continue
		}
		whole = whole && prompt == "" && m.Role == "user" && len(m.Text) <= briefPrompt
		if m.Role == "user" {
			prompt = strings.Clone(cutText(m.Text, briefPrompt)) // not all of a large request
		}
	}
	return prompt, whole
}
