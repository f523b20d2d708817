package copilot

import (
	"encoding/json"

	"innerd/events"
)

// plan tells of copilot's list of things to do, which it keeps in a database
// of the session. The reader calls it.
func (t *turn) plan() {
	_, _ = t.p.peer.Go("session.plan.readSqlTodos", sessionOnly{t.c.session}, func(raw json.RawMessage, err error) {
		if err != nil {
			return // a list that cannot be read is not shown
		}
		if entries := planEntries(raw); len(entries) > 0 {
			t.locked(func() { t.emit(events.Plan{Entries: entries}) })
		}
	})
}

func planEntries(raw json.RawMessage) []events.PlanEntry {
	var list struct {
		Rows []struct {
			ID     string `json:"id"`
			Title  string `json:"title"`
			Status string `json:"status"`
		} `json:"rows"`
	}
	_ = lenient(json.Unmarshal(raw, &list)) // what is no list has no entries
	out := make([]events.PlanEntry, 0, len(list.Rows))
	for _, r := range list.Rows {
		s := "pending"
		switch r.Status {
		case "in_progress":
			s = "in_progress"
		case "done", "completed":
			s = "completed"
		}
		out = append(out, events.PlanEntry{Content: orElse(r.Title, r.ID), Status: s})
	}
	return out
}
