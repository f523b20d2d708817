package runs

import (
	"slices"
	"time"

	"innerd/events"
	"innerd/telemetry"
)

// callID is the id here of an agent's call, made at first sight. Native ids
// repeat within a run ("call_0"), so a call's end forgets it.
func (r *recorder) callID(native string) string {
	if id, ok := r.callIDs[native]; ok {
		return id
	}
	id := newCallID()
	if native != "" {
		r.callIDs[native] = id
	}
	return id
}

// knownID is the id here of a call that was seen, else the native one.
func (r *recorder) knownID(native string) string {
	if id, ok := r.callIDs[native]; ok {
		return id
	}
	return native
}

// admitLocked counts a call of the main agent; false: it is above the limit.
func (r *recorder) admitLocked() bool {
	if r.limited {
		return false
	}
	if r.callLimit > 0 && r.calls >= r.callLimit {
		r.limited = true
		r.stop(errToolLimit)
		return false
	}
	r.calls++
	return true
}

func (r *recorder) toolCallLocked(c events.ToolCall) {
	if !r.admitLocked() {
		return
	}
	r.closeBlockLocked(false)
	native := c.ID
	if i := r.toolIndexLocked(native); i >= 0 {
		r.endToolLocked(i, events.ToolComplete{Result: "replaced by another call of the same id"})
	}
	delete(r.callIDs, native)
	r.natives++
	c.NativeID, c.ID, c.Input = native, r.callID(native), object(c.Input)
	r.tools = append(r.tools, &openTool{
		native: native, call: c, since: time.Now(), span: toolSpan(r.span, telemetry.Internal, c.Name, c.ID),
	})
	r.busy.Store(int64(len(r.tools)))
	r.append(c)
}

func (r *recorder) toolIndexLocked(native string) int {
	return slices.IndexFunc(r.tools, func(t *openTool) bool { return t.native == native })
}

func (r *recorder) toolCompleteLocked(c events.ToolComplete) {
	if i := r.toolIndexLocked(c.ID); i >= 0 {
		r.endToolLocked(i, c)
		return
	}
	if c.ParentID == "" && r.limited {
		return // the end of the call that was not let in
	}
	c.ID, c.ParentID = r.callID(c.ID), r.knownID(c.ParentID)
	r.append(c)
}

func (r *recorder) endToolLocked(i int, c events.ToolComplete) {
	t := r.tools[i]
	r.tools = slices.Delete(r.tools, i, i+1)
	r.busy.Store(int64(len(r.tools)))
	t.span.End(faultOf(c))
	c.ID, c.ParentID = t.call.ID, ""
	if c.Name == "" {
		c.Name = t.call.Name
	}
	if c.DurationMS == 0 {
		c.DurationMS = time.Since(t.since).Milliseconds()
	}
	r.append(c)
}

func faultOf(c events.ToolComplete) string {
	if c.Success {
		return ""
	}
	return events.OutcomeError
}

func (r *recorder) toolRequestLocked(q events.ToolRequest) {
	r.closeBlockLocked(false)
	r.bridged++
	if q.NativeID != "" {
		r.callIDs[q.NativeID] = q.ToolCallID
	}
	r.append(q)
}

// admit asks whether a bridged call may be made.
func (r *recorder) admit() bool {
	r.order.Lock()
	defer r.order.Unlock()
	return !r.sealed && r.admitLocked()
}

// worked reports whether the agent used tools of its own.
func (r *recorder) worked() bool {
	r.order.Lock()
	defer r.order.Unlock()
	return r.natives > 0
}

// over reports whether the limit was passed, so that nothing more may run.
func (r *recorder) over() bool {
	r.order.Lock()
	defer r.order.Unlock()
	return r.limited || r.sealed
}

// beginSteer goes before input for the agent, steered after it.
func (r *recorder) beginSteer() {
	r.order.Lock()
	defer r.order.Unlock()
	r.steers = 0
}

// steered logs input that the agent has taken, unless the agent has put it
// into its place itself.
func (r *recorder) steered(text string) {
	r.pulse.Add(1)
	r.order.Lock()
	defer r.order.Unlock()
	switch {
	case r.steers > 0:
	case r.sealed:
		r.dropped.Add(1)
	default:
		r.append(events.Steered{Text: text})
	}
}
