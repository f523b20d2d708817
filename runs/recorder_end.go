package runs

import (
	"encoding/json"
	"errors"
	"time"

	"innerd/backends"
	"innerd/events"
)

// seal ends the run's stream: open calls, open blocks, usage, error, end. It
// returns the events that close the log, which must be appended together, and
// lets nothing in afterwards.
func (r *recorder) seal(v verdict, backend string, output json.RawMessage) ([]events.Data, verdict) {
	r.order.Lock()
	defer r.order.Unlock()
	r.endToolsLocked(v)
	for _, d := range r.redact.rest() {
		r.write(d)
	}
	r.closeBlockLocked(v.state != events.Completed)
	v = r.emptyLocked(v)
	r.sealed = true
	usage := r.usageLocked(backend)
	end := events.End{State: v.state, Reason: v.reason, Output: output, FilesChanged: r.files}
	if v.exit != nil {
		end.ExitCode, end.Signal, end.StderrTail = &v.exit.Code, v.exit.Signal, v.exit.StderrTail
		if v.exit.Signal != "" {
			end.ExitCode = nil
		}
	}
	if v.state == events.Completed {
		return r.closing(usage, end), v
	}
	end.Usage, end.Output = &usage, nil
	return r.closing(*v.err, end), v
}

// appended is the id of the last event that went into the log.
func (r *recorder) appended() int64 {
	r.order.Lock()
	defer r.order.Unlock()
	return r.lastID
}

func (r *recorder) endToolsLocked(v verdict) {
	why := "the turn was over before the call ended"
	if v.err != nil {
		why = v.err.Message
	}
	for len(r.tools) > 0 {
		r.endToolLocked(0, events.ToolComplete{Result: why})
	}
}

// emptyLocked turns a completed run in which nothing was said into a failure,
// or says so in words where the agent worked in silence: hosts take a run
// without text, reasoning and bridged call for a failure and run it again.
func (r *recorder) emptyLocked(v verdict) verdict {
	if v.state != events.Completed || r.messages > 0 || r.reasoned || r.bridged > 0 {
		return v
	}
	if r.calls == 0 && !limited(v.reason) {
		return failure(events.Failed, "", events.NewError(events.ErrEmptyTurn, "the agent ended its turn without saying or doing anything"))
	}
	r.openBlockLocked(events.TypeMessage, "\x00synthetic")
	r.open.sum = append(r.open.sum, "(no text)"...)
	r.append(events.MessageDelta{Delta: "(no text)", MessageID: r.open.id})
	r.closeWithLocked(events.Message{Synthetic: true})
	return v
}

// limited reports whether a run ended for a limit that its host has set: that is
// no failure of the agent's, whatever it had said by then.
func limited(reason string) bool {
	switch reason {
	case backends.ReasonToolCallLimit, backends.ReasonMaxTurns, backends.ReasonMaxCost:
		return true
	}
	return false
}

func (r *recorder) usageLocked(backend string) events.Usage {
	u := r.turns // of a turn that was ended before its agent could sum up
	if r.usage != nil {
		u = *r.usage
	}
	u.Backend = backend
	if u.Duration == nil {
		d := time.Since(r.started).Seconds()
		u.Duration = &d
	}
	if u.TTFTMS == nil && r.ttft > 0 {
		ms := r.ttft.Milliseconds()
		u.TTFTMS = &ms
	}
	u.TotalTokens = total(u)
	return u
}

// addUsage adds a model turn; what is unknown in all stays unknown.
func addUsage(sum *events.Usage, u events.Usage) {
	plus(&sum.InputTokens, u.InputTokens)
	plus(&sum.OutputTokens, u.OutputTokens)
	plus(&sum.CacheReadTokens, u.CacheReadTokens)
	plus(&sum.CacheWriteTokens, u.CacheWriteTokens)
	plus(&sum.ReasoningTokens, u.ReasoningTokens)
	plus(&sum.Cost, u.Cost)
	if u.Model != "" {
		sum.Model = u.Model
	}
}

func plus[N int64 | float64](sum **N, n *N) {
	if n == nil {
		return
	}
	v := *n
	if *sum != nil {
		v += **sum
	}
	*sum = &v
}

// total sums the disjoint counts that are known; nil if none is.
func total(u events.Usage) *int64 {
	var sum int64
	known := false
	for _, n := range []*int64{u.InputTokens, u.OutputTokens, u.CacheReadTokens, u.CacheWriteTokens, u.ReasoningTokens} {
		if n != nil {
			sum, known = sum+*n, true
		}
	}
	if !known {
		return nil
	}
	return &sum
}

// storageVerdict is the end of a run whose log could not take more.
func storageVerdict(err error) verdict {
	return failure(events.Failed, "", events.NewError(events.ErrStorage, errors.Unwrap(err).Error()))
}
