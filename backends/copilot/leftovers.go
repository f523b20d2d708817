package copilot

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// What copilot leaves on disk beside a session lives as long as its conversation
// is open: results that were too long for the model, in HOME/outputs/<session>,
// and the files of detached commands, in the system's folder for such. Copilot
// alone knows their names: they are noted in HOME/detached/<session>, for the
// server that comes after one that was killed.
const (
	outputs  = "outputs"
	detaches = "detached"
)

// outputDir is where copilot puts results that are too long for the model.
func (c *conversation) outputDir() string { return filepath.Join(c.b.home(), outputs, c.session) }

// have notes a session that the conversation begins or resumes.
func (c *conversation) have(session string) {
	if !slices.Contains(c.sessions, session) {
		c.sessions = append(c.sessions, session)
		c.b.sessions.add(session)
	}
}

// removeLeft removes what the conversation's sessions have left.
func (c *conversation) removeLeft() {
	c.mu.Lock()
	logs := c.logs
	c.mu.Unlock()
	for _, path := range logs {
		c.b.removeLog(path)
	}
	for _, session := range c.sessions {
		if err := c.b.sessions.remove(session, func() error { return c.b.removeNoted(session) }); err != nil {
			c.b.log.Warn("what a conversation has left could not be removed", "conversation", c.cfg.ID, "err", err)
		}
	}
}

// removeNoted removes a session's folder of long results and its note.
func (b *Backend) removeNoted(session string) error {
	return b.o.Children.In(b.home(), func(home *os.Root) error {
		return errors.Join(home.RemoveAll(outputs+"/"+session), home.RemoveAll(detaches+"/"+session))
	})
}

// askLogs has copilot tell which files a command that was detached has. The
// reader calls it.
func (c *conversation) askLogs() {
	p := c.proc()
	if p == nil {
		return
	}
	session := c.session
	_, _ = p.peer.Go("session.tasks.list", sessionOnly{session}, func(raw json.RawMessage, _ error) { // it will be asked again
		var list taskList
		if lenient(json.Unmarshal(orNull(raw), &list)) == nil && !c.isClosed() { // Close asks by itself
			c.noteLogs(session, list.Tasks)
		}
	})
}

// noteLogs notes the files of detached commands, in the order of their paths.
func (c *conversation) noteLogs(session string, tasks []task) {
	c.mu.Lock()
	before := len(c.logs)
	for _, x := range tasks {
		if x.Attachment == attachDetached && x.LogPath != "" && !slices.Contains(c.logs, x.LogPath) {
			c.logs = append(c.logs, x.LogPath)
		}
	}
	all := slices.Clone(c.logs)
	c.mu.Unlock()
	if len(all) == before {
		return
	}
	raw, err := json.Marshal(all)
	if err == nil {
		err = errors.Join(c.b.o.Children.MkdirAll(filepath.Join(c.b.home(), detaches)),
			c.b.o.Children.WriteFile(filepath.Join(c.b.home(), detaches, session), raw))
	}
	if err != nil { // they are removed all the same, unless we are killed
		c.b.log.Warn("the files of detached commands could not be noted", "conversation", c.cfg.ID, "err", err)
	}
}

// removeLog removes the files that a detached command leaves in the system's
// folder for such. No others are, and none elsewhere: what commands run as may
// name a path in copilot's place.
func (b *Backend) removeLog(path string) {
	temp := os.TempDir()
	rel, err := filepath.Rel(temp, path)
	if err != nil || !filepath.IsLocal(rel) || !strings.HasPrefix(filepath.Base(rel), "copilot-detached-") || strings.ContainsAny(rel, `*?[\`) {
		return
	}
	_ = b.o.Children.In(temp, func(dir *os.Root) error { // they may stay
		files, _ := fs.Glob(dir.FS(), filepath.ToSlash(strings.TrimSuffix(rel, ".log"))+".*")
		for _, f := range files {
			_ = dir.Remove(f)
		}
		return nil
	})
}

// forgetLeft removes what the conversations of a server have left that was
// killed: of sessions that no conversation has open, and no other copilot.
func (b *Backend) forgetLeft() error {
	names := map[string]bool{}
	err := b.o.Children.In(b.home(), func(home *os.Root) error {
		for _, dir := range []string{outputs, detaches} {
			entries, _ := fs.ReadDir(home.FS(), dir) // there may be none
			for _, e := range entries {
				if sessionForm.MatchString(e.Name()) {
					names[e.Name()] = true
				}
			}
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	all := []error{err}
	for session := range names {
		if b.elsewhere(session) {
			continue
		}
		all = append(all, b.sessions.unlessOpen(session, func() error {
			b.removeLogs(session)
			return b.removeNoted(session)
		}))
	}
	return errors.Join(all...)
}

const maxNote = 1 << 20

// removeLogs removes what a session's note names.
func (b *Backend) removeLogs(session string) {
	raw, err := b.o.Children.ReadFile(filepath.Join(b.home(), detaches, session), maxNote)
	var logs []string
	if err != nil || json.Unmarshal(raw, &logs) != nil {
		return // it has none, or a command has written it
	}
	for _, path := range logs {
		b.removeLog(path)
	}
}

// elsewhere reports whether a copilot that runs has a session open. It leaves
// its process's number in the session's folder.
func (b *Backend) elsewhere(session string) (found bool) {
	_ = b.o.Children.In(filepath.Join(b.home(), "session-state"), func(dir *os.Root) error { // no folder, no copilot
		locks, _ := fs.Glob(dir.FS(), session+"/inuse.*.lock")
		for _, name := range locks {
			n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(filepath.Base(name), "inuse."), ".lock"))
			found = found || err == nil && lives(n)
		}
		return nil
	})
	return found
}

// lives reports whether there is a process of a number.
func lives(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	err = p.Signal(syscall.Signal(0))
	return err == nil || errors.Is(err, fs.ErrPermission)
}
