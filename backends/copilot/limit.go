package copilot

import (
	"encoding/json"

	"innerd/backends/internal/rpc"
	"innerd/events"
)

// Copilot has no limit of model turns, so it is stopped here: after the last
// call of the last turn that is allowed, before its result goes to the model.
// The hook that tells of the call's end is answered behind the stop.

// lastCall takes the hook that follows a call.
func (t *turn) lastCall(r *rpc.Request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.limited || t.ended || t.halt.on() {
		return
	}
	if t.posts++; t.posts < t.calls {
		return
	}
	t.completeFrom(r)
	t.abort()
}

// completeFrom tells of the end of the one call that is open: copilot does not
// any more.
func (t *turn) completeFrom(r *rpc.Request) {
	var h hookCall
	_ = lenient(json.Unmarshal(r.Params, &h)) // a result without a text is one
	for id, c := range t.tr.calls {
		if len(t.tr.calls) == 1 && c.name == h.Input.ToolName {
			delete(t.tr.calls, id)
			t.emit(events.ToolComplete{
				ID: id, ParentID: c.parent, Name: c.name, Success: h.Type == "postToolUse", Result: orElse(h.Input.Result.Text, h.Input.Error),
				DurationMS: t.tr.now().Sub(c.start).Milliseconds(),
			})
			return
		}
	}
}
