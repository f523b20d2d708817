package a2a

import (
	"context"
	"errors"
	"io"
	"time"
	"unicode/utf8"

	"innerd/adapter/a2a/spec"
	"innerd/events"
	"innerd/events/journal"
	"innerd/runs"
)

// maxSnapshot is how much of artifacts a stream's first event carries: clients
// take events of 4 MiB.
const maxSnapshot = 2 << 20

// frame is one event of a stream, and the place in the log behind it.
type frame struct {
	response spec.StreamResponse
	id       int64 // 0: it leaves the reader's place as it was
}

// Stream is the events of a task for one reader. One goroutine uses it; close
// it.
type Stream struct {
	first     []frame
	f         *follower // nil: first is all
	taskID    string
	contextID string
	untilAsk  bool // ends where the task waits for an answer
	over      bool
	down      func()                                 // says that first is out; nil: nobody asks
	again     func(context.Context) (*Stream, error) // begins anew from the task as it stands
	leave     func()                                 // gives its place back; nil: it has none
}

// streamFrom begins with the task as it was after an event.
func (s *Server) streamFrom(ctx context.Context, run *runs.Run, ext bool, limit *spec.Int, send bool, at int64) (*Stream, error) {
	v, err := s.largeAt(ctx, run, ext, at)
	if err != nil {
		return nil, err
	}
	limitHistory(&v.task, limit)
	st := &Stream{first: snapshotFrames(v), taskID: v.task.ID, contextID: v.task.ContextID, untilAsk: send}
	st.down = func() { s.opt.PutDown(ctx) }
	state := v.task.Status.State
	if state.Terminal() || send && state == spec.StateInputRequired {
		return st, nil
	}
	if st.f, err = follow(run, v.t, v.last, nil); err != nil {
		return nil, errorOf(err)
	}
	st.again = func(ctx context.Context) (*Stream, error) {
		return s.streamFrom(ctx, run, ext, limit, send, run.Log().Last())
	}
	return st, nil
}

// snapshotFrames is a task as the first event of a stream. Where its artifacts
// are too large for one, they follow as events of their own.
func snapshotFrames(v view) []frame {
	size := 0
	for _, a := range v.task.Artifacts {
		for _, p := range a.Parts {
			if p.Text != nil {
				size += len(*p.Text)
			}
			if p.Raw != nil {
				size += len(*p.Raw)
			}
			size += len(p.Data)
		}
	}
	if size <= maxSnapshot {
		return []frame{{spec.StreamResponse{Task: &v.task}, v.last}}
	}
	artifacts := v.task.Artifacts
	v.task.Artifacts = nil
	out := []frame{{response: spec.StreamResponse{Task: &v.task}}}
	for _, a := range artifacts {
		for i, part := range split(a.Parts) {
			piece := a
			piece.Parts = []spec.Part{part}
			out = append(out, frame{response: spec.StreamResponse{ArtifactUpdate: &spec.ArtifactUpdate{
				TaskID: v.task.ID, ContextID: v.task.ContextID, Artifact: piece, Append: i > 0,
			}}})
		}
	}
	out[len(out)-1].id = v.last
	return out
}

// split cuts long texts.
func split(parts []spec.Part) []spec.Part {
	var out []spec.Part
	for _, p := range parts {
		for p.Text != nil && len(*p.Text) > maxHeld {
			n := cutAt(*p.Text, maxHeld)
			head := p
			text := (*p.Text)[:n]
			rest := (*p.Text)[n:]
			head.Text, p.Text = &text, &rest
			out = append(out, head)
		}
		out = append(out, p)
	}
	return out
}

// SubscribeToTask gives a task, then what happens to it until it has ended. A
// caller that says how far it was (Call.After) gets what it missed instead of
// the task.
func (s *Server) SubscribeToTask(ctx context.Context, c Call, req *spec.SubscribeToTaskRequest) (*Stream, error) {
	leave, err := s.hold(ctx)
	if err != nil {
		return nil, err
	}
	return placed(leave, func() (*Stream, error) { return s.subscribe(ctx, c, req) })
}

func (s *Server) subscribe(ctx context.Context, c Call, req *spec.SubscribeToTaskRequest) (*Stream, error) {
	run, _, err := s.find(ctx, c, req.Tenant, "id", req.ID)
	if err != nil {
		return nil, err
	}
	last := run.Log().Last()
	if c.After > 0 && c.After < last {
		return s.resume(ctx, run, c)
	}
	if _, ended := run.Log().Ended(); ended {
		return nil, spec.ErrUnsupported.With("the task has ended; GetTask has its result")
	}
	if c.After > 0 && c.After == last {
		return s.resume(ctx, run, c)
	}
	return s.streamFrom(ctx, run, c.Ext, nil, false, last)
}

func (s *Server) resume(ctx context.Context, run *runs.Run, c Call) (*Stream, error) {
	v, err := s.viewAt(ctx, run, c.Ext, bare, c.After)
	if err != nil {
		return nil, err
	}
	st := &Stream{taskID: v.task.ID, contextID: v.task.ContextID}
	st.again = func(ctx context.Context) (*Stream, error) {
		return s.streamFrom(ctx, run, c.Ext, nil, false, run.Log().Last())
	}
	var gone *journal.GoneError
	if st.f, err = follow(run, v.t, c.After, nil); errors.As(err, &gone) {
		return st.again(ctx)
	}
	return st, errorOf(err)
}

// Next waits for the next event; io.EOF after the last.
func (st *Stream) Next(ctx context.Context) (spec.StreamResponse, error) {
	f, err := st.next(ctx, time.Time{})
	return f.response, err
}

// next is Next, with errTick at a time (zero: none).
func (st *Stream) next(ctx context.Context, until time.Time) (frame, error) {
	if len(st.first) > 0 {
		f := st.first[0]
		st.first = st.first[1:]
		return f, nil
	}
	if st.down != nil {
		st.down()
		st.down = nil
	}
	if st.f == nil || st.over {
		return frame{}, io.EOF
	}
	u, err := st.f.next(ctx, until)
	var gone *journal.GoneError
	if errors.As(err, &gone) && st.again != nil {
		// Without a disk a slow reader's next event may not be kept any more.
		// The task as it stands has all that matters of it.
		fresh, err := st.again(ctx)
		if err != nil {
			return frame{}, err
		}
		st.f.close()
		fresh.leave = st.leave
		*st = *fresh
		return st.next(ctx, until)
	}
	if err != nil {
		if !errors.Is(err, io.EOF) && !errors.Is(err, errTick) {
			err = errorOf(err)
		}
		return frame{}, err
	}
	out := frame{id: u.id}
	if u.artifact != nil {
		out.response.ArtifactUpdate = u.artifact
		return out, nil
	}
	out.response.StatusUpdate = &spec.StatusUpdate{TaskID: st.taskID, ContextID: st.contextID, Status: *u.status, Metadata: u.meta}
	if !u.transient {
		st.over = u.status.State.Terminal() || st.untilAsk && u.status.State == spec.StateInputRequired
	}
	return out, nil
}

// ready reports whether next has something without waiting.
func (st *Stream) ready() bool {
	return len(st.first) > 0 || st.f != nil && !st.over && st.f.ready()
}

// Close ends the stream; its task goes on.
func (st *Stream) Close() {
	if st.f != nil {
		st.f.close()
		st.f = nil
	}
	if st.leave != nil {
		st.leave()
	}
}

// cutAt is where a text is cut so that at most n bytes stand before it, and no
// character is halved.
func cutAt(text string, n int) int {
	if len(text) <= n {
		return len(text)
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return n
}

// taken is the event in which a run took a message that came after another
// event: the place from which the message's stream begins.
func taken(run *runs.Run, after int64) int64 {
	last := run.Log().Last()
	for e, err := range run.Log().Snapshot(after, notDelta) {
		if err != nil {
			break
		}
		switch e.Data.(type) {
		case events.InputResolved, events.PermissionResolved, events.Steered:
			return e.ID
		}
	}
	return last
}
