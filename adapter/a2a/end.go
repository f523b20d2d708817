package a2a

import (
	"innerd/adapter/a2a/extension"
	"innerd/adapter/a2a/spec"
	"innerd/events"
)

// end is the task's last status, with its reason, and before it the output
// that was asked for.
func (t *translator) end(d events.End) {
	if len(d.Output) > 0 && string(d.Output) != "null" {
		a := t.artifactUpdate(spec.Artifact{ArtifactID: "output", Name: "output", Parts: []spec.Part{spec.Data(d.Output)}}, extension.ArtifactInfo{Kind: "output"})
		a.LastChunk = true
		t.put(update{artifact: a})
	}
	t.open, t.held, t.hostTools = nil, nil, nil
	if d.Usage != nil {
		t.usage = d.Usage
	}
	t.info.Reason = d.Reason
	errorType, words := "", ""
	if t.fail != nil {
		errorType, words = t.fail.ErrorType, t.fail.Message
	}
	t.info.ErrorType = errorType
	if t.usage != nil {
		t.info.Usage = usageOf(*t.usage, false)
	}
	if words == "" && d.State == events.Completed && notable(d.Reason) {
		words = "the turn ended: " + d.Reason
	}
	var m *spec.Message
	if words != "" {
		m = t.agent(spec.Text(words))
	}
	t.to(endState(d.State, d.Reason, errorType), m)
	if t.ext {
		t.out[len(t.out)-1].meta = ours(t.taskInfo())
	}
}

// notable reasons are those that a client should hear of.
func notable(reason string) bool {
	switch reason {
	case "", "end_turn", "stop_sequence":
		return false
	}
	return true
}

// endState is the state of a run that ended so.
func endState(state, reason, errorType string) spec.TaskState {
	switch {
	case state == events.Completed && reason == "refusal":
		return spec.StateRejected
	case state == events.Completed:
		return spec.StateCompleted
	case state == events.Canceled:
		return spec.StateCanceled
	case errorType == events.ErrInvalidRequest:
		return spec.StateRejected
	}
	return spec.StateFailed
}

func (t *translator) taskInfo() extension.TaskInfo {
	info := t.info
	info.HostTools = t.hostTools
	return info
}
