//go:build linux

package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// endedMost is how many ended runs are looked at, those that ended last: looking
// at ten thousand would be the larger part of a restart.
const endedMost = 500

// stamp says that a file is as it was: whatever writes to one changes it.
type stamp struct {
	size, written, inode int64
}

// Ended are the files of runs that have ended, by run and name.
type Ended map[string]map[string]stamp

// LookAtEnded reads which runs a state directory keeps that have ended, and
// what each of their files is.
func LookAtEnded(state string) Ended {
	out := Ended{}
	for _, id := range endedIDs(state) {
		dir := filepath.Join(state, "runs", id)
		files := map[string]stamp{}
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return nil //nolint:nilerr // retention may take it
			}
			if info, err := d.Info(); err == nil {
				st := info.Sys().(*syscall.Stat_t)
				name, _ := filepath.Rel(dir, path)
				files[name] = stamp{info.Size(), info.ModTime().UnixNano(), int64(st.Ino)} //nolint:gosec // only compared
			}
			return nil
		})
		if len(files) > 0 {
			out[id] = files
		}
	}
	return out
}

// endedIDs are the runs that runs.jsonl has an end of, and no deletion.
func endedIDs(state string) (ids []string) {
	raw, _ := os.ReadFile(filepath.Join(state, "runs.jsonl")) // none: nothing has run
	for line := range bytes.Lines(raw) {
		var r struct{ Op, ID string }
		if json.Unmarshal(line, &r) != nil {
			continue // torn, or damaged by the test
		}
		switch r.Op {
		case "end":
			ids = append(ids, r.ID)
		case "delete":
			ids = slices.DeleteFunc(ids, func(id string) bool { return id == r.ID })
		}
	}
	return ids[max(0, len(ids)-endedMost):]
}

// Changed says what of those files is not as it was. A run may be gone whole:
// retention, a full disk and hosts remove them. An index may be made anew, since
// it says nothing that is not in its segment. Conversations, the list of runs and
// what else stands elsewhere goes on with the server.
func (was Ended) Changed(state string) (out []string) {
	now := LookAtEnded(state)
	for _, id := range slices.Sorted(maps.Keys(was)) {
		files, kept := now[id]
		if !kept {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(files)) {
			if _, there := was[id][name]; !there && !strings.HasSuffix(name, ".idx") {
				out = append(out, fmt.Sprintf("the ended run %s has a new file %s", id, name))
			}
		}
		for _, name := range slices.Sorted(maps.Keys(was[id])) {
			before := was[id][name]
			switch after, there := files[name]; {
			case strings.HasSuffix(name, ".idx"):
			case !there:
				out = append(out, fmt.Sprintf("the ended run %s has no file %s any more", id, name))
			case after != before:
				out = append(out, fmt.Sprintf("the ended run %s has another file %s: %d bytes, now %d", id, name, before.size, after.size))
			}
		}
	}
	return out
}

// keepsEnded does what must leave the files of ended runs alone.
func (s *Server) keepsEnded(what string, do func()) {
	s.T.Helper()
	was := LookAtEnded(s.State)
	do()
	for _, c := range was.Changed(s.State) {
		s.T.Errorf("%s: %s", what, c)
	}
}
