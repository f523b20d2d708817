package claudecode

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"innerd/backends"
)

// Claude does not lock a session: two processes that have the same one open
// write into the same file, and what one of them was told is lost. So before a
// turn we look whether somebody else has it, or has gone on with it since; then
// this conversation goes on in a copy.

const (
	maxOurs   = 1000    // inputs that are remembered as ours
	maxHolder = 1 << 16 // bytes of the file that says who has a session open
)

// sent notes an input as ours.
func (c *conversation) sent(uuid string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ours == nil || len(c.ours) >= maxOurs {
		c.ours = map[string]bool{}
	}
	c.ours[uuid] = true
}

// seal notes how far the session's file is ours.
func (c *conversation) seal() {
	if info, err := c.statSession(); err == nil {
		c.sealed = info.Size()
	}
}

// statSession looks at the session's file. Where it is, is looked up once: that
// takes longer the more there are, and this is done in every turn.
func (c *conversation) statSession() (fs.FileInfo, error) {
	if c.keptOf == c.session {
		return os.Stat(c.kept)
	}
	path, there := c.sessionFile(c.session)
	if there != yes {
		return nil, fs.ErrNotExist
	}
	c.kept, c.keptOf = path, c.session
	return os.Stat(path)
}

// conflict says who else has this session; "" where nobody is seen. Whether
// somebody only has it open matters where a process is to take it.
func (c *conversation) conflict(p *process, taking bool) string {
	if !c.told {
		return ""
	}
	info, err := c.statSession()
	if err != nil {
		return ""
	}
	if taking {
		own := 0
		if p != nil {
			own = p.child.PID()
		}
		if pid := c.holder(own); pid != 0 {
			return "another claude (process " + strconv.Itoa(pid) + ") has it open"
		}
	}
	if c.sealed > 0 && info.Size() != c.sealed {
		if c.goneOn() {
			return "another claude has gone on with it"
		}
		c.sealed = info.Size()
	}
	return ""
}

// holder is another process that has the session open, 0 where none is seen.
func (c *conversation) holder(own int) int {
	files, _ := filepath.Glob(filepath.Join(c.b.configDir(), "sessions", "*.json"))
	for _, f := range files {
		raw, err := c.b.o.Children.ReadFile(f, maxHolder)
		if err != nil {
			continue
		}
		var s struct {
			PID     int    `json:"pid"`
			Session string `json:"sessionId"`
			Start   string `json:"procStart"`
		}
		if json.Unmarshal(raw, &s) == nil && s.Session == c.session && s.PID != own && startOf(s.PID) == s.Start {
			return s.PID
		}
	}
	return 0
}

// startOf is when a process started, as /proc tells it; "" for none.
func startOf(pid int) string {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(raw), ") ") // the name before may hold anything
	fields := strings.Fields(rest)
	const start = 22 - 3 // field 22 of all, counted from 1, of which two are cut
	if len(fields) > start {
		return fields[start]
	}
	return ""
}

// goneOn reports whether a file has an input that is not ours behind where it
// was ours.
func (c *conversation) goneOn() bool {
	f, err := c.b.o.Children.Open(c.kept)
	if err != nil {
		return false // not known
	}
	defer f.Close() //nolint:errcheck // only read
	if _, err := f.Seek(c.sealed, io.SeekStart); err != nil {
		return false
	}
	r := bufio.NewReader(f)
	for {
		line, err := r.ReadBytes('\n')
		if bytes.Contains(line, []byte(`"type":"user"`)) && c.foreign(line) {
			return true
		}
		if err != nil {
			return false
		}
	}
}

// foreign reports whether a line of a session's file is an input of somebody
// else's. What claude writes as the user's by itself stands in brackets.
func (c *conversation) foreign(line []byte) bool {
	var l struct {
		Type    string  `json:"type"`
		UUID    string  `json:"uuid"`
		Meta    bool    `json:"isMeta"`
		Side    bool    `json:"isSidechain"`
		Summary bool    `json:"isCompactSummary"`
		Message message `json:"message"`
	}
	if lenient(json.Unmarshal(line, &l)) != nil || l.Type != lineUser || l.Meta || l.Side || l.Summary || len(l.Message.Content) == 0 {
		return false
	}
	c.mu.Lock()
	ours := c.ours[l.UUID]
	c.mu.Unlock()
	first := l.Message.Content[0]
	return !ours && first.Type == blockText && !strings.HasPrefix(first.Text, "[") && !strings.HasPrefix(first.Text, "<")
}

// copied is what is stored beside the id of a session that is a copy: of which,
// for claude makes it when it starts, and that may fail.
type copied struct {
	Of string `json:"fork_of"`
}

func (c *conversation) copyOf() json.RawMessage {
	if c.forkOf == "" {
		return nil
	}
	raw, _ := json.Marshal(copied{c.forkOf}) // a string: cannot fail
	return raw
}

// reopen takes up a session that was stored; false: there is none any more. A
// copy that was to be made is made by the next process.
func (c *conversation) reopen(s backends.Session) bool {
	c.session, c.told = s.ID, true
	if c.stored(s.ID) != no {
		return true
	}
	var from copied
	_ = json.Unmarshal(s.State, &from) // what cannot be read names none
	if c.stored(from.Of) == no {
		return false
	}
	c.forkOf, c.forked = from.Of, "another claude has used it"
	return true
}

// fork has the next process go on in a copy of the session, under another id.
func (c *conversation) fork() {
	c.forkOf, c.session, c.sealed = c.session, newUUID(), 0
}
