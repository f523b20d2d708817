package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	"innerd/backends"
	"innerd/events"
	"innerd/events/journal"
	"innerd/toolbridge"
)

var taskIDPattern = regexp.MustCompile(`^[A-Za-z0-9_-]{8,64}$`)

// Start accepts a turn. The run's first event is in its log when Start
// returns; the turn itself goes on by itself. For a task id that is known it
// returns that run, created false.
//
// Errors: *backends.FieldError, ErrConflict, ErrBusy, ErrDraining,
// *LimitedError; any other means that the run could not even be logged.
func (m *Manager) Start(ctx context.Context, owner string, spec Spec) (run *Run, created bool, err error) {
	if spec.TaskID != "" {
		if !taskIDPattern.MatchString(spec.TaskID) {
			return nil, false, &backends.FieldError{Field: "metadata.task_id", Reason: "must be 8 to 64 of A-Z a-z 0-9 _ -"}
		}
		switch run, err := m.known(owner, spec); {
		case err != nil:
			return nil, false, err
		case run != nil:
			return run, false, nil
		}
	}
	backend, err := m.choose(ctx, spec.Backend)
	if err != nil {
		return nil, false, err
	}
	if err := m.complete(&spec, backend); err != nil {
		return nil, false, err
	}
	if spec.Settings.Interactive {
		st, _ := m.probers[backend.Name()].status(ctx, probeWait)
		lendAskUser(&spec, st.Capabilities)
	}
	if err := m.checkLimit(backend.Name(), spec.Credential); err != nil {
		return nil, false, err
	}
	run, created, err = m.enqueue(owner, spec, backend)
	// The turn goes on here at once, and the caller, who only reads what comes of
	// it, elsewhere: another thread would have to wake up for the turn.
	runtime.Gosched()
	return run, created, err
}

// known finds the run of a client-made task id.
func (m *Manager) known(owner string, spec Spec) (*Run, error) {
	m.mu.Lock()
	run := m.runs[spec.TaskID]
	m.mu.Unlock()
	if run == nil {
		log, err := m.store.Get(spec.TaskID)
		if err != nil {
			return nil, nil
		}
		run = &Run{log: log}
	}
	return run, sameRequest(run, owner, spec)
}

// choose finds the backend of a name; without one the default, or the first
// that can run. It falls back to the last asked, so that a run exists that
// says what is missing.
func (m *Manager) choose(ctx context.Context, name string) (backends.Backend, error) {
	if name == "" {
		name = m.opt.Default
	}
	name = strings.ReplaceAll(name, "_", "-")
	if name != "" {
		if b := m.backends[name]; b != nil {
			return b, nil
		}
		return nil, &backends.FieldError{Field: "metadata.backend", Reason: fmt.Sprintf("unknown: %q; there are %s", name, strings.Join(m.names(), ", "))}
	}
	var first backends.Backend
	for _, b := range m.opt.Backends {
		if b.Name() == "simulate" {
			continue // it only acts; nobody shall get it without asking
		}
		if st, _ := m.probers[b.Name()].status(ctx, probeWait); st.Usable {
			return b, nil
		}
		if first == nil {
			first = b
		}
	}
	if first == nil {
		return nil, &backends.FieldError{Field: "metadata.backend", Reason: "no backend is set up; there are " + strings.Join(m.names(), ", ")}
	}
	return first, nil
}

func (m *Manager) names() []string {
	var out []string
	for _, b := range m.opt.Backends {
		out = append(out, b.Name())
	}
	return out
}

// complete fills in defaults and refuses what no turn could use.
func (m *Manager) complete(spec *Spec, b backends.Backend) error {
	set := &spec.Settings
	if set.Permission == "" {
		set.Permission = backends.PermissionAuto
	}
	if set.Permission == backends.PermissionAsk && m.opt.OpenServer {
		return &backends.FieldError{Field: "metadata.permission_mode", Reason: `"ask" promises nothing on a server without keys, where the agent can answer itself; start it with keys`}
	}
	set.MaxCost = spec.MaxCostUSD
	if noTools(set.ToolChoice) {
		set.Tools = nil
	}
	if spec.Timeout <= 0 {
		spec.Timeout = of(m.lim.Turn, b.Name())
	}
	if spec.DetachGrace <= 0 {
		spec.DetachGrace = m.lim.DetachGrace
	}
	if spec.InputTimeout <= 0 {
		spec.InputTimeout = m.lim.Input
	}
	if spec.TaskID != "" {
		spec.Detach = true
	}
	if spec.ContextID == "default" {
		spec.ContextID = ""
	}
	if err := m.directories(spec); err != nil {
		return err
	}
	if v, ok := b.(backends.Validator); ok {
		return v.Validate(*set)
	}
	return nil
}

// noTools reports whether a tool_choice offers the host's tools at all: "none",
// or {"type": "none"}.
func noTools(choice json.RawMessage) bool {
	var word string
	var object struct{ Type string }
	if json.Unmarshal(choice, &word) != nil && json.Unmarshal(choice, &object) == nil {
		word = object.Type
	}
	return word == "none"
}

// lendAskUser gives an agent that cannot ask by itself a tool that does, where
// a user is there. A host's own tool of that name stays the host's.
func lendAskUser(spec *Spec, can backends.Capabilities) {
	set := &spec.Settings
	if !set.Interactive || can.Questions || !can.Tools || noTools(set.ToolChoice) {
		return
	}
	ask := toolbridge.AskUser()
	for _, t := range set.Tools {
		if t.Name == ask.Name {
			return
		}
	}
	set.Tools = append(set.Tools[:len(set.Tools):len(set.Tools)], backends.Tool{
		Name: ask.Name, Description: ask.Description, Schema: ask.Schema, Parallel: ask.Parallel,
	})
}

func (m *Manager) directories(spec *Spec) error {
	field := "metadata.cwd"
	if spec.Dir == "" {
		spec.Dir, field = m.opt.Dir, "the server's workspace"
	}
	if spec.Dir == "" {
		spec.Dir, _ = os.Getwd()
	}
	for i, dir := range append([]string{spec.Dir}, spec.AddDirs...) {
		if i > 0 {
			field = fmt.Sprintf("metadata.add_dirs[%d]", i-1)
		}
		if !filepath.IsAbs(dir) {
			return &backends.FieldError{Field: field, Reason: fmt.Sprintf("%q is not an absolute path", dir)}
		}
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return &backends.FieldError{Field: field, Reason: fmt.Sprintf("%q is not a directory here", dir)}
		}
	}
	return nil
}

// enqueue puts the run into its conversation and starts it. The lock is let go
// while the run's log is made, which may take as long as the disk does; until
// then the run's id and its place are reserved.
func (m *Manager) enqueue(owner string, spec Spec, b backends.Backend) (*Run, bool, error) {
	if spec.TaskID == "" {
		spec.TaskID = newID()
	}
	conv, known, err := m.reserve(owner, &spec, b)
	if known != nil || err != nil {
		return known, false, err
	}
	run, err := m.newRun(owner, spec, conv)

	m.mu.Lock()
	defer m.mu.Unlock()
	conv.reserved--
	close(m.starting[spec.TaskID])
	delete(m.starting, spec.TaskID)
	if err != nil {
		m.forgetUnusedLocked(conv)
		m.wg.Done()
		return nil, false, err
	}
	m.admitLocked(run)
	return run, true, nil
}

// reserve finds the place of a run that is to be started, or the run of the
// same id that came first.
func (m *Manager) reserve(owner string, spec *Spec, b backends.Backend) (*conversation, *Run, error) {
	for {
		m.mu.Lock()
		if other := m.starting[spec.TaskID]; other != nil {
			m.mu.Unlock()
			<-other // its owner is another Start, which the disk bounds
			continue
		}
		defer m.mu.Unlock()
		if m.draining {
			return nil, nil, ErrDraining
		}
		if run := m.runs[spec.TaskID]; run != nil {
			if err := sameRequest(run, owner, *spec); err != nil {
				return nil, nil, err
			}
			return nil, run, nil
		}
		conv, err := m.placeLocked(owner, spec, b)
		if err != nil {
			return nil, nil, err
		}
		conv.reserved++
		m.wg.Add(1) // for drive; a Shutdown from here on waits for this run
		delete(m.warm, conv)
		m.starting[spec.TaskID] = make(chan struct{})
		return conv, nil, nil
	}
}

// admitLocked gives a run its place in the queue.
func (m *Manager) admitLocked(run *Run) {
	l := run.live
	m.runs[run.ID()] = run
	l.conv.queue = append(l.conv.queue, l)
	l.conv.lastUsed = l.meta.Created
	if len(l.conv.queue) == 1 && l.conv.compacting == nil {
		close(l.turn)
	}
	if m.draining {
		l.cancel(backends.ErrShutdown)
	}
	go m.drive(run) // ends with the run; Shutdown waits for it
}

func sameRequest(run *Run, owner string, spec Spec) error {
	if meta := run.log.Meta(); meta.Owner != owner || meta.BodyHash != spec.BodyHash {
		return fmt.Errorf("%w: task_id %s was used for another request", ErrConflict, spec.TaskID)
	}
	return nil
}

// placeLocked finds the conversation a run goes into, or makes one.
func (m *Manager) placeLocked(owner string, spec *Spec, b backends.Backend) (*conversation, error) {
	if spec.ContextID == "" {
		return m.newConversationLocked(owner, "", b), nil
	}
	conv := m.byKey[conversationKey(owner, b.Name(), spec.ContextID)]
	if conv == nil {
		return m.newConversationLocked(owner, spec.ContextID, b), nil
	}
	if !conv.busyLocked() {
		return conv, nil
	}
	// The host's tool may itself have started this run: behind a run that
	// waits for that tool it would wait for ever.
	if len(conv.queue) > 0 && conv.queue[0].waiting() {
		return m.newConversationLocked(owner, "", b), nil
	}
	switch spec.OnBusy {
	case BusyReject:
		return nil, fmt.Errorf("%w: the conversation is busy", ErrConflict)
	case BusyCancel:
		if len(conv.queue) > 0 {
			conv.queue[0].cancel(&canceledError{"another run took its place (on_busy)"})
		}
		if conv.compacting != nil {
			conv.compacting.cancel(&canceledError{"a run took its place (on_busy)"})
		}
	}
	if len(conv.queue)+conv.reserved > m.lim.Queue {
		return nil, ErrBusy
	}
	return conv, nil
}

func (m *Manager) newConversationLocked(owner, contextID string, b backends.Backend) *conversation {
	c := &conversation{id: newID(), owner: owner, contextID: contextID, backend: b, memory: toolbridge.NewMemory(), lastUsed: time.Now()}
	c.state = &storedConversation{ID: c.id, Owner: owner, ContextID: contextID, Backend: b.Name()}
	m.conversations[c.id] = c
	if contextID != "" {
		m.byKey[c.key()] = c
		m.boundLocked(c)
	}
	return c
}

// forgetUnusedLocked drops a conversation that never had a run.
func (m *Manager) forgetUnusedLocked(c *conversation) {
	if c.busyLocked() || c.agent != nil || c.began.Load() {
		return
	}
	delete(m.conversations, c.id)
	if m.byKey[c.key()] == c {
		delete(m.byKey, c.key())
	}
}

// newRun makes the run's log with its first event.
func (m *Manager) newRun(owner string, spec Spec, conv *conversation) (*Run, error) {
	id := spec.TaskID
	said, all := briefOf(spec.Messages)
	secrets := m.redactor(spec)
	meta := journal.RunMeta{
		ID: id, Owner: owner, ContextID: spec.ContextID, ConversationID: conv.id, Backend: conv.backend.Name(),
		Created: time.Now(), BodyHash: spec.BodyHash, Request: secrets.json(requestRecord(spec)),
		Prompt: secrets.text(said), PromptWhole: all,
	}
	log, err := m.store.Create(meta)
	if errors.Is(err, journal.ErrExists) {
		return nil, fmt.Errorf("%w: task_id %s is in use", ErrConflict, id)
	}
	if err != nil {
		return nil, err
	}
	meta.Request, spec.Request = nil, nil // it is on disk, and as large as all that was ever said
	if _, err := log.Append(events.TaskID{TaskID: id, ContextID: spec.ContextID, Backend: meta.Backend}); err != nil {
		return nil, err
	}
	l := &live{
		spec: spec, meta: meta, conv: conv, accepted: m.accepted.Add(1), turn: make(chan struct{}), done: make(chan struct{}),
		steering: make(chan struct{}, 1), over: make(chan struct{}), change: make(chan struct{}),
	}
	l.ctx, l.cancel = context.WithCancelCause(m.ctx)
	l.rec = newRecorder(log, l.cancel)
	l.rec.redact = secrets
	l.rec.callLimit, l.rec.maxCost = spec.ToolCallLimit, spec.MaxCostUSD
	l.stats, l.span = m.stats, m.span(meta, spec.Trace)
	l.rec.span, l.rec.first = l.span, m.stats.times[meta.Backend].first.Observe
	m.stats.accept(meta.Backend)
	l.sess = m.bridge.Open(m.session(l))
	for _, note := range spec.Notes {
		l.rec.record(events.Status{State: events.StateNotice, Detail: note})
	}
	l.mu.Lock()
	l.armHangupLocked()
	l.mu.Unlock()
	return &Run{log: log, live: l}, nil
}

func (m *Manager) session(l *live) toolbridge.SessionConfig {
	tools := make([]toolbridge.ToolSpec, 0, len(l.spec.Settings.Tools))
	for _, t := range l.spec.Settings.Tools {
		tools = append(tools, toolbridge.ToolSpec{Name: t.Name, Description: t.Description, Schema: t.Schema, Parallel: t.Parallel})
	}
	return toolbridge.SessionConfig{
		RunID: l.meta.ID, Owner: l.meta.Owner, ConversationID: l.conv.id, Backend: l.meta.Backend,
		Permission: l.spec.Settings.Permission, Interactive: l.spec.Settings.Interactive,
		ToolTimeout: l.spec.Timeout, InputTimeout: l.spec.InputTimeout, Memory: l.conv.memory, Tools: tools,
		Admit:     l.admit,
		Log:       l.logRequest,
		OnExpired: func() { l.cancel(errInputTimeout) },
	}
}
