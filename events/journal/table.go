package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// Lines of runs.jsonl.
const (
	opBegin  = "begin"
	opEnd    = "end"
	opDelete = "delete"
)

type record struct {
	Op    string   `json:"op"`
	ID    string   `json:"id"`
	Meta  *RunMeta `json:"meta,omitempty"`
	End   *RunEnd  `json:"end,omitempty"`
	Bytes int64    `json:"bytes,omitempty"` // on disk, of a run that ended
}

// runsFile is runs.jsonl: a line when a run begins, when it ends, when it is
// deleted. Listing, retention and recovery read this alone.
type runsFile struct {
	s     *Store
	mu    sync.Mutex
	file  File
	size  int64
	torn  bool // bytes of a failed write stand behind the end
	dirty bool
	lines int // in the file
	// fresh are lines that the logs do not know of yet: a compaction keeps them.
	fresh map[string]record
}

func (t *runsFile) name() string { return filepath.Join(t.s.dir, "runs.jsonl") }

// append writes a line; after an error it is not there.
func (t *runsFile) append(r record, sync bool) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file == nil {
		return ErrClosed
	}
	if t.torn {
		if err := t.file.Truncate(t.size); err != nil {
			return err
		}
		t.torn = false
	}
	line = append(line, '\n')
	_, err = writeAt(t.file, line, t.size)
	if err == nil && sync {
		err = t.file.Sync()
	}
	if err != nil {
		t.torn = t.file.Truncate(t.size) != nil
		return err
	}
	t.size += int64(len(line))
	t.lines++
	t.dirty = t.dirty || !sync
	if t.fresh == nil {
		t.fresh = map[string]record{}
	}
	t.fresh[r.ID] = r
	return nil
}

// settle says that the logs know of the last line of a run.
func (t *runsFile) settle(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.fresh, id)
}

// sync makes the lines durable. If that fails, they are written once more,
// into a new file.
func (t *runsFile) sync() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file == nil || !t.dirty {
		return nil
	}
	err := t.file.Sync()
	if err != nil {
		data := make([]byte, t.size)
		if n, rerr := t.file.ReadAt(data, 0); n < len(data) {
			return errors.Join(err, rerr)
		}
		err = t.replaceLocked(data)
	}
	if err == nil {
		t.dirty = false
	}
	return err
}

// replaceLocked puts data in the file's place.
func (t *runsFile) replaceLocked(data []byte) error {
	if err := replaceFile(t.s.fs, t.name(), data, t.s.opt.Fsync != FsyncNone); err != nil {
		return err
	}
	f, err := t.s.openKept(t.name(), os.O_RDWR)
	if err != nil {
		return err
	}
	if t.file != nil {
		_ = t.file.Close()
	}
	t.file, t.size, t.torn = f, int64(len(data)), false
	t.lines = bytes.Count(data, newline)
	return t.s.fs.SyncDir(t.s.dir)
}

// compact writes the file anew from what is known, when most of it is old.
func (t *runsFile) compact(force bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file == nil && !force {
		return nil
	}
	all := t.s.all()
	if !force && t.lines < 4*len(all)+1000 {
		return nil
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	for _, l := range all {
		l.mu.Lock()
		ended, end, n := l.ended && !l.unwritten, l.end, l.bytes
		l.mu.Unlock()
		if err := enc.Encode(record{Op: opBegin, ID: l.meta.ID, Meta: &l.meta}); err != nil {
			return err
		}
		if !ended {
			continue
		}
		if err := enc.Encode(record{Op: opEnd, ID: l.meta.ID, End: &end, Bytes: n}); err != nil {
			return err
		}
	}
	for _, r := range t.fresh {
		if err := enc.Encode(r); err != nil {
			return err
		}
	}
	return t.replaceLocked(buf.Bytes())
}

func (t *runsFile) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file != nil {
		_ = t.file.Close()
		t.file = nil
	}
}

// recordEnd writes the line of a run that ended.
func (s *Store) recordEnd(id string, e RunEnd, size int64) error {
	r := record{Op: opEnd, ID: id, End: &e, Bytes: size}
	err := s.table.append(r, s.opt.Fsync == FsyncAlways)
	for err != nil && diskFull(err) && s.giveReserve(reserveOfEnds) {
		err = s.table.append(r, s.opt.Fsync == FsyncAlways)
	}
	return err
}

const requestName = "request.json"

type requestFile struct {
	Meta    RunMeta         `json:"meta"`
	Request json.RawMessage `json:"request"`
}

// writeRequest writes request.json, at once: without the run's line in
// runs.jsonl a part of it counts for nothing. It has the run's beginning too, so that
// one can be found again whose line in runs.jsonl is damaged.
func writeRequest(fsys FS, l *Log, request json.RawMessage, sync bool) (err error) {
	if len(request) == 0 {
		request = json.RawMessage("null")
	}
	meta, err := json.Marshal(l.meta)
	if err != nil {
		return err
	}
	// Put together by hand: a request may be large, and json.Marshal would look
	// through all of it again.
	data := slices.Concat([]byte(`{"meta":`), meta, []byte(`,"request":`), request, []byte("}"))
	f, err := fsys.OpenFile(filepath.Join(l.dir, requestName), os.O_WRONLY|os.O_CREATE, 0o600) // not to be cut: ext4 then writes it out when it is closed
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err = writeAt(f, append(data, '\n'), 0); err == nil && sync {
		err = f.Sync()
	}
	return err
}

func loadRequest(fsys FS, dir string) (requestFile, error) {
	var f requestFile
	data, err := readFile(fsys, filepath.Join(dir, requestName))
	if err != nil {
		return f, err
	}
	return f, json.Unmarshal(data, &f)
}

func readRequest(fsys FS, dir string) (json.RawMessage, error) {
	f, err := loadRequest(fsys, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotFound
	}
	if string(f.Request) == "null" {
		return nil, err
	}
	return f.Request, err
}
