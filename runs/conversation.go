package runs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"innerd/backends"
	"innerd/events/journal"
	"innerd/runs/history"
	"innerd/toolbridge"
)

// States of a conversation.
const (
	ConversationRunning = "running"
	ConversationIdle    = "idle" // its agent is warm
	ConversationCold    = "cold"
)

// ConversationInfo is a conversation as hosts see it.
type ConversationInfo struct {
	ID        string    `json:"id"`
	ContextID string    `json:"context_id"`
	Backend   string    `json:"backend"`
	State     string    `json:"state"`
	LastUsed  time.Time `json:"last_used"`
	// Compacting: the agent is shortening its memory; State is running.
	Compacting bool `json:"compacting,omitempty"`
}

// conversation is one memory of one agent. Its queue belongs to the Manager
// and is guarded by Manager.mu; the agent belongs to the run whose turn it is,
// or, while no run is on, to the pool.
type conversation struct {
	id        string
	owner     string
	contextID string // "" for a run's own, which nobody can come back to
	backend   backends.Backend
	memory    *toolbridge.Memory
	token     string // of the second road; "" without

	queue    []*live // the first one's turn it is
	reserved int     // runs that are being started here
	// compacting is set while the agent shortens its memory: the conversation
	// is then nobody's turn.
	compacting *compaction
	lastUsed   time.Time

	agent  backends.Conversation // nil when cold
	opened string                // what the agent was opened with
	idle   *time.Timer           // closes the agent; nil: none runs
	gone   chan struct{}         // closed when the agent that was taken away last is gone; nil: there was none

	began atomic.Bool // the agent has a session

	save    sync.Mutex          // guards what follows, and its order on disk
	state   *storedConversation // nil: it is in its file
	unsaved bool                // the file is older than state
}

// storedConversation is STATE/conversations/<id>/state.json, and, while its
// agent is being told something, the newer ahead beside it.
type storedConversation struct {
	ID        string           `json:"id"`
	Owner     string           `json:"owner"`
	ContextID string           `json:"context_id"`
	Backend   string           `json:"backend"`
	Dir       string           `json:"cwd"`
	Session   backends.Session `json:"session"`
	Record    history.Record   `json:"record"`
	LastUsed  time.Time        `json:"last_used"`
	Writes    int64            `json:"writes,omitempty"` // the larger of two is the newer; Unix milliseconds, or one more than before
}

func conversationKey(owner, backend, contextID string) string {
	return owner + "\x00" + backend + "\x00" + contextID
}

func (c *conversation) key() string {
	return conversationKey(c.owner, c.backend.Name(), c.contextID)
}

func stateFile(id string) string { return "conversations/" + id + "/state.json" }
func aheadFile(id string) string { return "conversations/" + id + "/ahead" }

// update changes the stored part and writes it; it is durable when update
// returns. A run's own conversation is not stored.
func (c *conversation) update(store *journal.Store, change func(*storedConversation)) error {
	return c.write(func(data []byte) error { return store.WriteFile(stateFile(c.id), data) }, store, change)
}

// note is update for what the end of the turn will write again: it outlives
// this process, and may not outlive the machine. A sync here, or a file that takes
// the other's place, would be the larger part of what a warm turn waits for.
func (c *conversation) note(store *journal.Store, change func(*storedConversation)) error {
	return c.write(func(data []byte) error { return store.OverwriteFile(aheadFile(c.id), sealed(data)) }, store, change)
}

// sealed is data behind its sum: what is overwritten where it stands may be
// found half old, half new.
func sealed(data []byte) []byte {
	return append(fmt.Appendf(nil, "%08x\n", crc32.ChecksumIEEE(data)), data...)
}

var errNotWhole = errors.New("runs: what was written ahead is no whole")

func unsealed(raw []byte) ([]byte, error) {
	sum, data, _ := bytes.Cut(raw, []byte("\n"))
	if string(sum) != fmt.Sprintf("%08x", crc32.ChecksumIEEE(data)) {
		return nil, errNotWhole
	}
	return data, nil
}

func (c *conversation) write(to func([]byte) error, store *journal.Store, change func(*storedConversation)) error {
	c.save.Lock()
	defer c.save.Unlock()
	st := c.loadLocked(store)
	change(st)
	st.Writes = max(st.Writes+1, time.Now().UnixMilli())
	c.began.Store(!st.Session.Zero())
	if c.contextID == "" {
		return nil
	}
	data, err := json.Marshal(st)
	if err == nil {
		err = to(data)
	}
	c.unsaved = err != nil
	if err != nil {
		return fmt.Errorf("runs: conversation %s: %w", c.id, err)
	}
	return nil
}

// readConversation reads the newer of a conversation's two files. One that is
// ahead and no whole was being written when its server died, before its agent
// was told anything; one that is older than the other was left by this build
// before an earlier one, which knows nothing of it, went on. fs.ErrNotExist:
// there is neither.
func readConversation(store *journal.Store, id string) (storedConversation, error) {
	st, err := readState(store, stateFile(id), id, nil)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return st, err
	}
	ahead, aerr := readState(store, aheadFile(id), id, unsealed)
	if aerr == nil && (err != nil || ahead.Writes > st.Writes && !ahead.LastUsed.Before(st.LastUsed)) {
		return ahead, nil
	}
	return st, err
}

func readState(store *journal.Store, file, id string, open func([]byte) ([]byte, error)) (st storedConversation, err error) {
	raw, err := store.ReadFile(file)
	if err == nil && open != nil {
		raw, err = open(raw)
	}
	if err == nil {
		err = json.Unmarshal(raw, &st)
	}
	if err == nil && (st.ID != id || st.ContextID == "") {
		err = fmt.Errorf("runs: %s is of another conversation", file)
	}
	return st, err
}

// removeConversation removes what is stored of a conversation: what is ahead
// first, for alone it would be one.
func removeConversation(store *journal.Store, id string) error {
	return errors.Join(store.RemoveAll(aheadFile(id)), store.RemoveAll("conversations/"+id))
}

// stored is a copy of the stored part.
func (c *conversation) stored(store *journal.Store) storedConversation {
	c.save.Lock()
	defer c.save.Unlock()
	return *c.loadLocked(store)
}

// loadLocked gives the stored part, from its file where it was put away. A file
// that is gone is a conversation that begins anew.
func (c *conversation) loadLocked(store *journal.Store) *storedConversation {
	if c.state != nil {
		return c.state
	}
	var st storedConversation
	err := fs.ErrNotExist
	if c.contextID != "" {
		st, err = readConversation(store, c.id)
	}
	if err != nil {
		st = storedConversation{ID: c.id, Owner: c.owner, ContextID: c.contextID, Backend: c.backend.Name()}
	}
	c.state = &st
	return c.state
}

// putAway leaves the stored part to its file: with its record of everything
// that was said it is the larger part of a conversation, and most are never
// used again. One that is just being written stays.
func (c *conversation) putAway() {
	if !c.save.TryLock() {
		return // the caller holds the manager's lock, and does not wait for a disk
	}
	defer c.save.Unlock()
	if c.contextID != "" && !c.unsaved {
		c.state = nil
	}
}

// busyLocked reports whether a run or a compaction has the conversation, or is
// about to.
func (c *conversation) busyLocked() bool {
	return len(c.queue)+c.reserved > 0 || c.compacting != nil
}

// busyErrLocked says what has it.
func (c *conversation) busyErrLocked() error {
	if c.compacting != nil {
		return errCompacting
	}
	return ErrRunning
}

func (c *conversation) endIdleLocked() {
	if c.idle != nil {
		c.idle.Stop()
		c.idle = nil
	}
}

func (c *conversation) infoLocked() ConversationInfo {
	info := ConversationInfo{ID: c.id, ContextID: c.contextID, Backend: c.backend.Name(), State: ConversationCold, LastUsed: c.lastUsed}
	info.Compacting = c.compacting != nil
	switch {
	case len(c.queue) > 0 || info.Compacting:
		info.State = ConversationRunning
	case lives(c.agent):
		info.State = ConversationIdle
	}
	return info
}
