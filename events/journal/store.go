package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"
)

// Store is the logs of a server, in one state directory. Its methods may be
// called at the same time.
type Store struct {
	opt        Options
	fs         FS
	log        *slog.Logger
	dir        string
	id         string
	memoryOnly bool
	lock       io.Closer

	pool    chunkPool
	writers sync.WaitGroup // writer goroutines of all logs
	closed  atomic.Bool
	damaged atomic.Int64
	dropped atomic.Int64
	full    atomic.Int64
	trouble trouble

	counts                           [classOther + 1]atomic.Int64 // events by class
	written, writeErrors, syncErrors atomic.Int64

	mu      sync.Mutex
	logs    map[string]*Log   // nil: being made
	leaving map[string]bool   // deleted, but read
	holding map[*Log]struct{} // without an end, or with frames in memory
	ended   []*Log            // in the order in which they ended, to be dropped
	bytes   int64             // of ended runs on disk
	files   map[string][]byte // of WriteFile, while in memory only

	table   runsFile
	reserve reserve
	stock   stock
	spares  spares
	folders folders
}

// Open opens the state directory, making it where it is missing, takes its
// lock and repairs what a crash left. Where another server has it, the error
// is ErrLocked; where it can't be written, and for dir "", the Store is in
// memory only. Nothing is started: see Run.
func Open(dir string, opt *Options) (*Store, error) {
	s := &Store{opt: opt.withDefaults(), logs: map[string]*Log{}, leaving: map[string]bool{}, holding: map[*Log]struct{}{}, files: map[string][]byte{}}
	if _, err := ParsePolicy(string(s.opt.Fsync)); err != nil {
		return nil, err
	}
	s.fs, s.log = s.opt.FS, s.opt.Logger
	s.folders.want = make(chan struct{}, 1)
	if dir == "" {
		return s.inMemory(), nil
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	s.dir = abs
	if err := s.takeDir(); err != nil {
		s.unlock()
		if errors.Is(err, ErrLocked) || errors.Is(err, errVersion) || outOfFiles(err) {
			return nil, err
		}
		s.log.Warn("journal: the state directory can't be written; runs are kept in memory only", "dir", dir, "err", err)
		return s.inMemory(), nil
	}
	s.markDir()
	if err := s.recover(); err != nil {
		s.table.close()
		s.spares.close()
		s.unlock()
		return nil, fmt.Errorf("journal: open %s: %w", dir, err)
	}
	return s, nil
}

func (s *Store) inMemory() *Store {
	s.dir, s.memoryOnly, s.id = "", true, ulid.Make().String()
	return s
}

// errVersion is a state directory that this version must not touch.
var errVersion = errors.New("journal: the state directory is not used, and left as it is")

// format is that of what this version writes, and the newest that it reads.
const format = 1

type versionFile struct {
	Version int    `json:"version"`
	ID      string `json:"id"`
}

// takeDir makes the directory, locks it and reads or makes VERSION.
func (s *Store) takeDir() error {
	if err := s.fs.MkdirAll(filepath.Join(s.dir, "runs"), 0o700); err != nil {
		return err
	}
	lock, err := s.fs.Lock(filepath.Join(s.dir, "lock"), fmt.Sprintf("%d %s\n", os.Getpid(), time.Now().UTC().Format(time.RFC3339)))
	if err != nil {
		return err
	}
	s.lock = lock
	name := filepath.Join(s.dir, "VERSION")
	data, err := readFile(s.fs, name)
	if err == nil {
		s.id, err = readVersion(name, data)
		return err
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if names, err := s.fs.ReadDir(filepath.Join(s.dir, "runs")); err == nil && len(names) > 0 {
		s.log.Warn("journal: the state directory had no VERSION and gets a new id; agents of a server that was killed are not known again by it", "dir", s.dir)
	}
	v := versionFile{Version: format, ID: ulid.Make().String()}
	data, _ = json.Marshal(v)
	s.id = v.ID
	return replaceFile(s.fs, name, append(data, '\n'), true)
}

// readVersion gives the id of a state directory of a format that is known.
func readVersion(name string, data []byte) (id string, err error) {
	var v versionFile
	if json.Unmarshal(data, &v) == nil && v.Version > format {
		return "", fmt.Errorf("%w: its format is %d, and this innerd knows %d: start the newer innerd that made it, or begin with another directory", errVersion, v.Version, format)
	}
	if _, err := ulid.ParseStrict(v.ID); err != nil || v.Version < 1 {
		return "", fmt.Errorf("%w: %s can't be understood, so it is of an unknown version or damaged: bring the file back from a backup, or begin with another directory; if you know that this innerd made it, remove the file and start again", errVersion, name)
	}
	return v.ID, nil
}

func (s *Store) unlock() {
	if s.lock != nil {
		_ = s.lock.Close()
		s.lock = nil
	}
}

// Dir is the state directory, "" in memory only.
func (s *Store) Dir() string { return s.dir }

// ID names the state directory for good: a ULID.
func (s *Store) ID() string { return s.id }

// MemoryOnly reports whether nothing is written to disk, from the start on.
func (s *Store) MemoryOnly() bool { return s.memoryOnly }

func validID(id string) bool {
	ok := func(r rune) bool {
		return r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z'
	}
	return id != "" && len(id) <= 128 && strings.IndexFunc(id, func(r rune) bool { return !ok(r) }) < 0
}

// Create begins a run. What was asked, and the run's line in runs.jsonl, are on
// disk when it returns. ErrExists; after any error nothing is left of it.
func (s *Store) Create(meta RunMeta) (*Log, error) {
	if !validID(meta.ID) {
		return nil, fmt.Errorf("journal: bad run id %.64q", meta.ID)
	}
	if meta.Created.IsZero() {
		meta.Created = s.opt.Now()
	}
	request := meta.Request
	meta.Request = nil
	l := newLog(s, meta)
	s.mu.Lock()
	if s.closed.Load() {
		s.mu.Unlock()
		return nil, ErrClosed
	}
	if _, taken := s.logs[meta.ID]; taken || s.leaving[meta.ID] {
		s.mu.Unlock()
		return nil, ErrExists
	}
	s.logs[meta.ID] = nil // taken, not there yet
	s.mu.Unlock()
	err := s.begin(l, request)
	s.mu.Lock()
	if err != nil {
		delete(s.logs, meta.ID)
	} else {
		s.logs[meta.ID] = l
		s.holding[l] = struct{}{}
	}
	s.mu.Unlock()
	s.table.settle(meta.ID)
	if err != nil {
		return nil, fmt.Errorf("journal: create %s: %w", meta.ID, err)
	}
	return l, nil
}

// begin puts on disk what a run begins with.
func (s *Store) begin(l *Log, request json.RawMessage) error {
	if l.dir == "" {
		l.request = slices.Clone(request)
		return nil
	}
	err := s.freshDir(l.dir)
	if err == nil {
		err = writeRequest(s.fs, l, request, s.opt.Fsync == FsyncAlways)
	}
	if err == nil {
		l.disk.x.open.first = 1
		err = l.disk.create(l)
	}
	if err == nil {
		err = s.table.append(record{Op: opBegin, ID: l.meta.ID, Meta: &l.meta}, s.opt.Fsync == FsyncAlways)
	}
	if err != nil {
		s.noteShort(err)
		if l.disk.file != nil {
			_ = l.disk.file.Close()
		}
		_ = s.fs.RemoveAll(l.dir)
	}
	return err
}

// freshDir makes a run's folder, without what may be left of a run of its id.
func (s *Store) freshDir(dir string) error {
	if s.takeFolder(dir) {
		return nil
	}
	err := s.fs.Mkdir(dir, 0o700)
	switch {
	case errors.Is(err, fs.ErrExist):
		if err = s.fs.RemoveAll(dir); err == nil {
			err = s.fs.Mkdir(dir, 0o700)
		}
	case errors.Is(err, fs.ErrNotExist): // somebody has removed runs/
		err = s.fs.MkdirAll(dir, 0o700)
	}
	return err
}

// create makes the first segment; unlike later ones it does not use the
// descriptors that are kept for runs that exist.
func (d *disk) create(l *Log) error {
	name := segmentName(1)
	f, err := l.s.fs.OpenFile(filepath.Join(l.dir, name), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if l.s.opt.Fsync == FsyncAlways {
		if err := l.s.fs.SyncDir(l.dir); err != nil {
			_ = f.Close()
			return err
		}
	}
	d.file, d.syncable, d.name = f, f, name
	d.segs = append(d.segs, segment{first: 1, live: true, x: d.x})
	return nil
}

// Get finds a run, live or ended. ErrNotFound.
func (s *Store) Get(id string) (*Log, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.logs[id]; l != nil {
		return l, nil
	}
	return nil, ErrNotFound
}

// all gives the logs as they are now.
func (s *Store) all() []*Log {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*Log, 0, len(s.logs))
	for _, l := range s.logs {
		if l != nil {
			all = append(all, l)
		}
	}
	return all
}

// holders gives the logs that may hold frames or open files.
func (s *Store) holders() []*Log {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.holding))
}

// forgetFrames notes that an ended log holds nothing any more.
func (s *Store) forgetFrames(l *Log) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.holding, l)
}

// List gives all runs, newest first.
func (s *Store) List() []Info {
	all := s.all()
	infos := make([]Info, 0, len(all))
	for _, l := range all {
		l.mu.Lock()
		info := Info{RunMeta: l.meta, LastID: l.last}
		if l.ended {
			end := l.end
			info.End = &end
		}
		l.mu.Unlock()
		infos = append(infos, info)
	}
	slices.SortFunc(infos, func(a, b Info) int {
		if c := b.Created.Compare(a.Created); c != 0 {
			return c
		}
		return strings.Compare(b.ID, a.ID)
	})
	return infos
}

// Unfinished gives the runs that were found without an end by Open, and have
// none yet, oldest first. Events can be appended to them.
func (s *Store) Unfinished() []*Log {
	var open []*Log
	for _, l := range s.all() {
		l.mu.Lock()
		if l.found && !l.ended {
			open = append(open, l)
		}
		l.mu.Unlock()
	}
	slices.SortFunc(open, func(a, b *Log) int { return a.meta.Created.Compare(b.meta.Created) })
	return open
}
