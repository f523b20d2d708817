package simulate

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"

	"innerd/backends"
	"innerd/events"
)

// Kinds of entries of what a session was told.
const (
	KindHistory = "history" // a block of history
	KindPrompt  = "prompt"
	KindResult  = "result" // of a bridged tool
	KindAnswer  = "answer" // of a permission or question
	KindSaid    = "said"   // by the agent itself
)

// maxSaid is how much of one message a session remembers, in bytes.
const maxSaid = 256 << 10

// Told is what a session was told, in order, and what it said; a model would
// be sent as much.
type Told struct {
	System  string   `json:"system,omitempty"` // of the last turn
	Turns   int      `json:"turns"`
	Entries []Entry  `json:"entries"`
	Tools   []string `json:"tools,omitempty"` // names of the last turn's
	Model   string   `json:"model,omitempty"` // of the last turn, likewise
	Effort  string   `json:"effort,omitempty"`
}

// Entry is one thing that was told or said.
type Entry struct {
	Turn  int           `json:"turn"` // from 1
	Kind  string        `json:"kind"`
	Text  string        `json:"text,omitempty"`
	Parts []events.Part `json:"parts,omitempty"`
}

// session is the agent's memory as it stands on disk.
type session struct {
	ID   string `json:"id"`
	Told Told   `json:"told"`
}

func newSession() *session {
	return &session{ID: "sim-" + strings.ToLower(rand.Text()), Told: Told{Entries: []Entry{}}}
}

// hear begins a turn with what it puts in.
func (s *session) hear(in backends.Input) {
	s.Told.Turns++
	s.Told.System = in.Set.System
	s.Told.Tools = nil
	only := chosenTool(in.Set.ToolChoice)
	for _, t := range in.Set.Tools {
		if only == "" || only == t.Name {
			s.Told.Tools = append(s.Told.Tools, t.Name)
		}
	}
	s.Told.Model, s.Told.Effort = in.Set.Model, in.Set.Effort
	if in.History != "" {
		s.add(Entry{Kind: KindHistory, Text: in.History})
	}
	s.add(Entry{Kind: KindPrompt, Parts: slices.Clone(in.Parts)})
}

// chosenTool is the one tool that a tool_choice names; "" is none.
func chosenTool(raw json.RawMessage) string {
	var c struct {
		Name     string `json:"name"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	if json.Unmarshal(raw, &c) != nil { // a word, or nothing
		return ""
	}
	if c.Function.Name != "" {
		return c.Function.Name
	}
	return c.Name
}

func (s *session) add(e Entry) {
	e.Turn = s.Told.Turns
	s.Told.Entries = append(s.Told.Entries, e)
}

// store keeps sessions: a file each, or in memory when dir is "".
type store struct {
	dir      string
	children *backends.Children // nil is fine
	mu       sync.Mutex         // memory
	memory   map[string][]byte
}

var sessionID = regexp.MustCompile(`^sim-[a-z0-9]{8,64}$`)

// load returns backends.ErrNoSession for one that is not there or not whole.
func (st *store) load(id string) (*session, error) {
	if !sessionID.MatchString(id) {
		return nil, fmt.Errorf("%w: %q is none of simulate's", backends.ErrNoSession, id)
	}
	raw, err := st.read(id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s is not there", backends.ErrNoSession, id)
	} else if err != nil {
		return nil, &backends.Error{Type: events.ErrInternal, Message: "the session cannot be read: " + err.Error()}
	}
	s := &session{}
	if err := json.Unmarshal(raw, s); err != nil || s.ID != id {
		return nil, fmt.Errorf("%w: the file of %s is damaged", backends.ErrNoSession, id)
	}
	return s, nil
}

// save writes a session; synced, it outlives a loss of power too.
func (st *store) save(s *session, synced bool) error {
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if st.dir == "" {
		st.mu.Lock()
		defer st.mu.Unlock()
		st.memory[s.ID] = raw
		return nil
	}
	if err := os.MkdirAll(st.dir, 0o700); err != nil {
		return err
	}
	saved := error(fs.ErrNotExist) // the folder may be gone again
	err = st.children.In(st.dir, func(dir *os.Root) error { saved = replace(dir, s.ID+ending, raw, synced); return nil })
	return errors.Join(err, saved)
}

func (st *store) read(id string) ([]byte, error) {
	if st.dir != "" {
		raw, err := []byte(nil), error(fs.ErrNotExist)
		if in := st.children.In(st.dir, func(dir *os.Root) error { raw, err = read(dir, id+ending); return nil }); in != nil {
			return nil, in
		}
		return raw, err
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	raw, ok := st.memory[id]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return raw, nil
}

// The folder is below the home of other agents, who may put anything in the
// place of a file.
const ending = ".json"

func read(dir *os.Root, name string) ([]byte, error) {
	info, err := dir.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file", name)
	}
	return dir.ReadFile(name)
}

// replace writes a file whole or not at all.
func replace(dir *os.Root, name string, data []byte, synced bool) (err error) {
	part := name + "." + rand.Text() + ".tmp"
	f, err := dir.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = dir.Remove(part)
		}
	}()
	_, err = f.Write(data)
	if err == nil && synced {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = dir.Rename(part, name); err != nil || !synced {
		return err
	}
	return syncDir(dir)
}

func syncDir(dir *os.Root) error {
	d, err := dir.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
