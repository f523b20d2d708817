package a2a

import (
	"context"

	"innerd/adapter/a2a/spec"
	"innerd/events"
	"innerd/events/journal"
)

// fold brings a translator to where a log stands after the event upTo (0: as
// far as it is visible now) and gives each update to apply. The deltas of
// messages that were closed are not read: the messages have all of their text.
// It gives up when ctx ends.
func (t *translator) fold(ctx context.Context, log *journal.Log, upTo int64, apply func(update)) (last int64, err error) {
	if upTo <= 0 {
		upTo = log.Last()
	}
	// Without a disk the oldest events of a long run are not kept.
	closed := max(log.Oldest()-1, 0)
	err = t.read(ctx, log, closed, upTo, notDelta, func(e events.Event, list []update) {
		switch e.Data.(type) {
		case events.Message, events.Reasoning, events.Discarded:
			closed = e.ID
		}
		each(list, apply)
	})
	if err == nil {
		err = t.read(ctx, log, min(closed, log.Last()), upTo, onlyDelta, func(_ events.Event, list []update) { each(list, apply) })
	}
	return upTo, err
}

// foldEnd is fold of a run that has ended, for its status and what was said to
// it: what its artifacts are made of is not read.
func (t *translator) foldEnd(ctx context.Context, log *journal.Log, apply func(update)) (last int64, err error) {
	last = log.Last()
	return last, t.read(ctx, log, max(log.Oldest()-1, 0), last, noArtifact, func(_ events.Event, list []update) { each(list, apply) })
}

// read translates the events after one up to another.
func (t *translator) read(ctx context.Context, log *journal.Log, after, upTo int64, filter journal.Filter, do func(events.Event, []update)) error {
	for e, err := range log.Until(ctx, after, min(upTo, log.Last()), filter) {
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		do(e, t.event(e))
	}
	return nil
}

func each(list []update, do func(update)) {
	for _, u := range list {
		do(u)
	}
}

func noArtifact(t events.Type) bool {
	switch t {
	case events.TypeMessage, events.TypeReasoning, events.TypeDiscarded, events.TypeFileChange, TypeArtifact:
		return false
	}
	return notDelta(t)
}

func notDelta(t events.Type) bool {
	return t != events.TypeMessageDelta && t != events.TypeReasoningDelta
}

func onlyDelta(t events.Type) bool { return !notDelta(t) }

// snapshot is a task as its updates make it: what a client that got them all
// has put together.
type snapshot struct {
	task  spec.Task
	place map[string]int    // of artifacts in task
	texts map[string][]byte // of artifacts that pieces make
	asked bool              // the status message stands in the history already
	bare  bool              // artifacts are not wanted
}

func newSnapshot(id, contextID string, history []spec.Message, created string) *snapshot {
	return &snapshot{
		task: spec.Task{
			ID: id, ContextID: contextID, History: history,
			Status: spec.TaskStatus{State: spec.StateSubmitted, Timestamp: created},
		},
		place: map[string]int{}, texts: map[string][]byte{},
	}
}

func (s *snapshot) apply(u update) {
	switch {
	case u.transient, s.bare && (u.artifact != nil || u.piece != nil):
	case u.said != nil:
		s.keepQuestion()
		s.task.History = append(s.task.History, *u.said)
	case u.status != nil:
		s.keepQuestion()
		s.task.Status, s.asked = *u.status, false
	case u.artifact != nil:
		s.artifact(u.artifact)
	case u.piece != nil:
		s.piece(u.piece)
	}
}

// keepQuestion puts what the agent asked into the history, before the answer.
func (s *snapshot) keepQuestion() {
	if st := s.task.Status; st.State.Interrupted() && st.Message != nil && !s.asked {
		s.task.History = append(s.task.History, *st.Message)
		s.asked = true
	}
}

func (s *snapshot) artifact(a *spec.ArtifactUpdate) {
	id := a.Artifact.ArtifactID
	i, known := s.place[id]
	if !known {
		i = len(s.task.Artifacts)
		s.place[id] = i
		s.task.Artifacts = append(s.task.Artifacts, a.Artifact)
		return
	}
	if a.Append {
		s.task.Artifacts[i].Parts = append(s.task.Artifacts[i].Parts, a.Artifact.Parts...)
		return
	}
	delete(s.texts, id)
	s.task.Artifacts[i] = a.Artifact
}

// piece joins appended text into one part.
func (s *snapshot) piece(p *piece) {
	u := p.make("", p.first, p.last)
	if u.artifact == nil {
		return // of the extension, and no part of the task
	}
	id := u.artifact.Artifact.ArtifactID
	if p.first {
		s.artifact(u.artifact)
	}
	s.texts[id] = append(s.texts[id], p.text...)
}

// result is the task, with its artifacts.
func (s *snapshot) result() spec.Task {
	t := s.task
	if s.bare {
		return t
	}
	t.Artifacts = make([]spec.Artifact, len(s.task.Artifacts))
	copy(t.Artifacts, s.task.Artifacts)
	for id, text := range s.texts {
		a := &t.Artifacts[s.place[id]]
		a.Parts = []spec.Part{spec.Text(string(text))}
	}
	return t
}

// limitHistory keeps the n newest messages; n nil: all of them.
func limitHistory(t *spec.Task, n *spec.Int) {
	switch {
	case n == nil:
	case *n == 0:
		t.History = nil
	case len(t.History) > int(*n):
		t.History = t.History[len(t.History)-int(*n):]
	}
}
