package runs

import (
	"context"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"innerd/backends"
	"innerd/events"
	"innerd/runs/history"
)

// plan is what a turn tells its agent, and in which session.
type plan struct {
	history.Decision
	session     backends.Session // zero: a new one
	block       string
	attachments []events.Part
}

// plan decides between going on in the agent's session, telling it more there,
// and a new session that is told everything.
func (m *Manager) plan(l *live, hist []history.Message, fresh bool) plan {
	stored := l.conv.stored(m.store)
	p := plan{session: stored.Session}
	p.Decision = m.decide(l, stored, hist, fresh)
	if p.Mode == history.New {
		p.session = backends.Session{}
	}
	p.block, p.attachments = history.Render(p.Tell, p.MayBeKnown, history.RenderOptions{})
	for i, a := range p.attachments {
		p.attachments[i] = m.load(l, a)
	}
	return p
}

// tell writes down what the agent is about to be told, before it is: should
// innerd die in the turn, those units are unsure, not forgotten.
func (m *Manager) tell(l *live, p plan, prompt history.Message) error {
	return l.conv.note(m.store, func(st *storedConversation) {
		st.Record.Told(l.meta.ID, m.accepted.Add(1), p.Decision, prompt)
		if l.meta.Created.After(st.LastUsed) { // not where the clock was set back: what is newer would look older
			st.LastUsed = l.meta.Created
		}
	})
}

// remember writes down how the turn ended: what the agent said, and whether it
// has the turn on its own disk.
func (m *Manager) remember(run *Run, out backends.Outcome, completed bool) {
	l := run.live
	if l.conv.contextID == "" || !l.hasStarted() {
		return
	}
	said := saidBy(run)
	err := l.conv.update(m.store, func(st *storedConversation) {
		st.Record.Said(l.meta.ID, m.accepted.Add(1), said, completed && out.Stored)
	})
	if err != nil {
		m.log.Error("a conversation's record was not written", l.meta.LogAttr(), "error", err)
	}
}

// unseenWait bounds how long the end of a run waits for its last message to be
// on the disk. Where that is full it will not be soon.
const unseenWait = 2 * time.Second

// saidBy reads the run's messages back from its log: they are not kept in
// memory while it runs. The last one may still be on its way to the disk.
func saidBy(run *Run) []string {
	ctx, cancel := context.WithTimeout(context.Background(), unseenWait)
	defer cancel()
	t := Task{}
	for e, err := range run.log.Until(ctx, 0, run.live.rec.appended(), folded) {
		if err != nil {
			break // what can't be read is not known; the next turn is told again
		}
		t.fold(e)
	}
	var texts []string
	for _, msg := range t.Messages {
		texts = append(texts, msg.Content)
	}
	return texts
}

func (l *live) hasStarted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.started
}

// projectDocLimit bounds the project instructions that are read.
const projectDocLimit = 64 << 10

// settings are the run's, with the project's own instructions in the system
// text: read here, the same for every agent.
func (m *Manager) settings(l *live) backends.Settings {
	set := l.spec.Settings
	if l.spec.NoProjectDocs {
		return set
	}
	if doc := projectDoc(l.spec.Dir); doc != "" {
		set.System = strings.TrimSpace(set.System + "\n\n" + doc)
	}
	return set
}

// projectDoc reads CLAUDE.md, else AGENTS.md. The folder may be anybody's: a
// link that leads out of it is not followed, and a pipe is not waited for.
func projectDoc(dir string) string {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return ""
	}
	defer root.Close() //nolint:errcheck // only read
	for _, name := range []string{"CLAUDE.md", "AGENTS.md"} {
		text, whole := readDoc(root, name)
		if strings.TrimSpace(text) == "" {
			continue
		}
		if !whole {
			text += "\n[cut at 64 KiB]"
		}
		return "Instructions of the project (" + name + "):\n" + text
	}
	return ""
}

// readDoc reads a file's text up to projectDocLimit; whole: that was all.
func readDoc(root *os.Root, name string) (text string, whole bool) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // or a pipe would hang here
	if err != nil {
		return "", true
	}
	defer f.Close() //nolint:errcheck // only read
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", true
	}
	data, err := io.ReadAll(io.LimitReader(f, projectDocLimit+1))
	if err != nil {
		return "", true
	}
	return strings.ToValidUTF8(string(data[:min(len(data), projectDocLimit)]), ""), len(data) <= projectDocLimit
}
