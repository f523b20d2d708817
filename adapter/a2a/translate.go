package a2a

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"innerd/adapter/a2a/extension"
	"innerd/adapter/a2a/spec"
	"innerd/events"
)

// Types of events that this binding puts into a run's log itself, or that a
// backend may emit for it.
const (
	// TypeMessage is a message of the client that came while the task ran:
	// its data is the message. It is a part of the task's history.
	TypeMessage events.Type = "a2a.message"
	// TypeArtifact is an artifact as a backend has it: its data is an
	// ArtifactUpdate, without the ids of task and context.
	TypeArtifact events.Type = "a2a.artifact"
)

// update is one change of a task as A2A says it. One of status, artifact,
// piece and said is set.
type update struct {
	id       int64 // the last event that it covers
	status   *spec.TaskStatus
	meta     spec.Object // of status
	artifact *spec.ArtifactUpdate
	piece    *piece
	said     *spec.Message // of the client; not sent, but history
	// transient: an event of the extension, which is no part of the task.
	transient bool
}

// piece is text that may be joined with the pieces that follow.
type piece struct {
	key         string // what it is a piece of
	first, last bool
	text        string
	// make gives the update that says a joined text.
	make func(text string, first, last bool) update
}

// waiting is a question or a permission that is open.
type waiting struct {
	id      string
	message *spec.Message
}

// translator turns the events of one run into updates. It is a pure function
// of the events, so that every reader sees the same, and one that comes back
// goes on where it was. One goroutine uses it.
type translator struct {
	id, contextID, backend string
	ext                    bool // the extension is active

	state     spec.TaskState
	open      []waiting
	held      *waiting // a permission that its policy may decide at once
	messages  map[string]*message
	begun     map[string]bool // artifacts that were shown
	reuse     string          // the artifact of a message that was taken back
	files     map[string]string
	tools     map[string]extension.ToolCall
	hostTools []extension.HostTool
	usage     *events.Usage
	fail      *events.Error
	info      extension.TaskInfo

	now events.Event // that is being translated
	out []update
}

// artifactKey begins the key of a piece of an answer.
const artifactKey = "artifact "

type message struct {
	artifact string
	seen     bool // a delta of it was
}

func newTranslator(id, contextID, backend string, ext bool) *translator {
	return &translator{
		id: id, contextID: contextID, backend: backend, ext: ext, state: spec.StateSubmitted,
		messages: map[string]*message{}, begun: map[string]bool{}, info: extension.TaskInfo{Backend: backend},
	}
}

// event translates one event. The updates are valid until the next call.
func (t *translator) event(e events.Event) []update {
	t.now, t.out = e, t.out[:0]
	if t.held != nil {
		t.release(e.Data)
	}
	switch d := e.Data.(type) {
	case events.MessageDelta:
		t.messageDelta(d)
	case events.Message:
		t.message(d)
	case events.Discarded:
		t.discarded(d)
	case events.FileChange:
		t.fileChange(d)
	case events.Status:
		t.status(d)
	case events.PermissionRequest:
		t.held = &waiting{d.RequestID, t.permission(d)}
	case events.InputRequired:
		t.ask(waiting{d.RequestID, t.question(d)})
	case events.PermissionResolved:
		t.answered(d.RequestID)
	case events.InputResolved:
		t.answered(d.RequestID)
	case events.Usage:
		t.usage = &d
		t.emit(extension.Event{Kind: extension.KindUsage, Usage: usageOf(d, false)})
	case events.Error:
		t.fail = &d
	case events.End:
		t.end(d)
	case events.Unknown:
		t.own(d)
	default:
		t.extended(e.Data)
	}
	// A reader that is cut between two updates of one event comes back for
	// both; what may not come twice, a piece to append, is an event's last.
	for i := range max(len(t.out)-1, 0) {
		t.out[i].id = e.ID - 1
	}
	return t.out
}

// settle says that nothing follows for now: a permission that is still open is
// one for the client.
func (t *translator) settle(pending func(id string) bool) []update {
	t.out = t.out[:0]
	if t.held != nil && pending(t.held.id) {
		t.show()
	}
	return t.out
}

// release decides about a permission that was held back: its resolution right
// behind it means that nobody had to be asked.
func (t *translator) release(next events.Data) {
	if r, ok := next.(events.PermissionResolved); ok && r.RequestID == t.held.id {
		t.held = nil
		return
	}
	t.show()
}

func (t *translator) show() {
	w := *t.held
	t.held = nil
	t.ask(w)
}

func (t *translator) ask(w waiting) {
	t.open = append(t.open, w)
	t.to(spec.StateInputRequired, t.open[0].message)
}

func (t *translator) answered(id string) {
	n := len(t.open)
	t.open = slices.DeleteFunc(t.open, func(w waiting) bool { return w.id == id })
	switch {
	case len(t.open) == n:
	case len(t.open) > 0:
		t.to(spec.StateInputRequired, t.open[0].message)
	default:
		t.to(spec.StateWorking, nil)
	}
}

// to is the one place where the state changes.
func (t *translator) to(state spec.TaskState, m *spec.Message) {
	t.state = state
	t.put(update{status: &spec.TaskStatus{State: state, Message: m, Timestamp: stamp(t.now.TS)}})
}

// work says that the agent is at work, where that is new.
func (t *translator) work() {
	if t.state == spec.StateSubmitted || t.state == spec.StateAuthRequired {
		t.to(spec.StateWorking, nil)
	}
}

func (t *translator) put(u update) {
	u.id = t.now.ID
	t.out = append(t.out, u)
}

func (t *translator) messageDelta(d events.MessageDelta) {
	t.work()
	m := t.artifactOf(d.MessageID)
	m.seen = true
	t.text(m.artifact, d.Delta, false)
}

func (t *translator) message(d events.Message) {
	t.work()
	m := t.artifactOf(d.MessageID)
	text := ""
	if !m.seen {
		text = d.Content
	}
	t.text(m.artifact, text, true)
}

func (t *translator) artifactOf(messageID string) *message {
	m := t.messages[messageID]
	if m == nil {
		m = &message{artifact: messageID}
		if t.reuse != "" {
			m.artifact, t.reuse = t.reuse, ""
		}
		t.messages[messageID] = m
	}
	return m
}

// discarded takes a message back: its artifact is empty until it is said again.
// Only what was shown is taken back, also where its deltas were not read here.
func (t *translator) discarded(d events.Discarded) {
	if d.MessageID != "" {
		m := t.artifactOf(d.MessageID)
		delete(t.messages, d.MessageID)
		t.reuse, t.begun[m.artifact] = m.artifact, true
		t.put(update{artifact: t.response(m.artifact, "", true, false)})
	}
	if d.ReasoningID != "" {
		t.emit(extension.Event{Kind: extension.KindDiscarded, Discarded: &extension.Discarded{ThoughtID: d.ReasoningID, Reason: d.Reason}})
	}
}

func (t *translator) text(artifact, text string, last bool) {
	first := !t.begun[artifact]
	t.begun[artifact] = true
	t.put(update{piece: &piece{
		key: artifactKey + artifact, first: first, last: last, text: text,
		make: func(text string, first, last bool) update {
			return update{artifact: t.response(artifact, text, first, last)}
		},
	}})
}

func (t *translator) response(artifact, text string, first, last bool) *spec.ArtifactUpdate {
	a := t.artifactUpdate(spec.Artifact{ArtifactID: artifact, Parts: []spec.Part{spec.Text(text)}}, extension.ArtifactInfo{Kind: "response"})
	a.Artifact.Name = "response"
	a.Append, a.LastChunk = !first, last
	return a
}

func (t *translator) artifactUpdate(a spec.Artifact, info extension.ArtifactInfo) *spec.ArtifactUpdate {
	if t.ext {
		a.Metadata, a.Extensions = ours(info), []string{extension.URI}
	}
	return &spec.ArtifactUpdate{TaskID: t.id, ContextID: t.contextID, Artifact: a}
}

// fileChange is an artifact for each path; a second change of it is added.
func (t *translator) fileChange(d events.FileChange) {
	t.work()
	id, again := t.files[d.Path]
	if !again {
		if t.files == nil {
			t.files = map[string]string{}
		}
		id = fmt.Sprintf("file-%d", len(t.files)+1)
		t.files[d.Path] = id
	}
	part := spec.Text(d.Diff)
	part.Filename, part.MediaType = d.Path, "text/x-diff"
	if d.Diff == "" {
		part = spec.Data(encode(map[string]string{"path": d.Path, "change": d.Kind}))
	}
	a := t.artifactUpdate(spec.Artifact{
		ArtifactID: id, Name: d.Path, Description: "file change: " + d.Kind, Parts: []spec.Part{part},
	}, extension.ArtifactInfo{Kind: "fileChange", Path: d.Path, Change: d.Kind})
	a.Append, a.LastChunk = again, true
	t.emit(extension.Event{Kind: extension.KindFileChange, FileChange: &extension.FileChange{Path: d.Path, Change: d.Kind, ArtifactID: id}})
	t.put(update{artifact: a})
}

func (t *translator) status(d events.Status) {
	switch d.State {
	case events.StateWaiting:
		if d.ErrorType == events.ErrAuth {
			t.to(spec.StateAuthRequired, t.agent(spec.Text(d.Detail)))
		}
	case events.StateStarting, events.StateWorking, events.StateHistory, events.StateRetrying, events.StateCompacting:
		t.work()
	}
	t.emit(extension.Event{Kind: extension.KindStatus, Status: &extension.Status{
		State: d.State, Detail: d.Detail, Mode: d.Mode, Reason: d.Reason, Attempt: d.Attempt, ErrorType: d.ErrorType, DelayMS: d.DelayMS,
	}})
}

// own takes the events that this binding or a backend made for it.
func (t *translator) own(d events.Unknown) {
	switch d.Type {
	case TypeMessage:
		var m spec.Message
		if json.Unmarshal(d.Raw, &m) == nil {
			t.put(update{said: &m})
		}
	case TypeArtifact:
		var a spec.ArtifactUpdate
		if json.Unmarshal(d.Raw, &a) == nil && a.Artifact.ArtifactID != "" {
			t.work()
			a.TaskID, a.ContextID = t.id, t.contextID
			t.put(update{artifact: &a})
		}
	}
}

// agent makes a message of the agent, whose id is that of the event.
func (t *translator) agent(parts ...spec.Part) *spec.Message {
	return &spec.Message{
		MessageID: fmt.Sprintf("%s-%d", t.id, t.now.ID), TaskID: t.id, ContextID: t.contextID, Role: spec.RoleAgent, Parts: parts,
	}
}

// stamp is Unix milliseconds as A2A writes times.
func stamp(ms int64) string { return time.UnixMilli(ms).UTC().Format(stampFormat) }

const stampFormat = "2006-01-02T15:04:05.000Z"

// ours is metadata with what belongs to the extension.
func ours(v any) spec.Object { return encode(map[string]any{extension.URI: v}) }

func encode(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Errorf("a2a: encode %T: %w", v, err)) // types of ours, and JSON that was checked
	}
	return raw
}
