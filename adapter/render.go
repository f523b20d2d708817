package adapter

import (
	"time"

	"innerd/adapter/api"
	"innerd/runs"
)

// taskOf is a task as it goes over the wire.
func taskOf(t runs.Task) api.Task {
	out := api.Task{
		ID: t.ID, ContextID: t.ContextID, Backend: t.Backend,
		Status:    api.TaskStatus{State: t.State, Timestamp: t.Timestamp.UTC().Format("2006-01-02T15:04:05.000Z")},
		Artifacts: []api.Artifact{}, History: []api.HistoryEntry{},
		LastEventID: t.LastEventID, Usage: t.Usage, Reason: t.Reason, Output: t.Output, Canceling: t.Canceling, Truncated: t.Truncated,
	}
	if t.Timestamp.IsZero() {
		out.Status.Timestamp = time.Now().UTC().Format("2006-01-02T15:04:05.000Z")
	}
	for _, m := range t.Messages {
		if m.Content == "" {
			continue
		}
		out.Artifacts = append(out.Artifacts, api.Artifact{
			ArtifactID: m.MessageID, MimeType: "text/plain", Index: len(out.Artifacts),
			Parts: []api.ArtifactPart{{Kind: "text", Text: m.Content}},
		})
	}
	for _, h := range t.History {
		out.History = append(out.History, api.HistoryEntry(h))
	}
	if t.Error != nil {
		out.Error = &api.TaskError{Message: t.Error.Message, ErrorType: t.Error.ErrorType}
	}
	for _, p := range t.Pending {
		out.Pending = append(out.Pending, api.Pending(p))
	}
	return out
}
