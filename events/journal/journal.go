// Package journal is the log of runs: one append-only sequence of events per
// run, on disk before anybody sees it, read by any number of readers at their
// own pace.
//
// An event is encoded once. Its line is the journal's line and the payload of
// its SSE frame; readers share ready frames in memory, and those who are
// behind it read the files. An event becomes visible only when write(2) has
// taken its line, so that nothing a reader was shown can be missing after a
// crash of this process.
//
// It is not part of package events, because hosts on Windows import that.
package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"innerd/events"
)

// Policy says when the journal is synced to the device.
type Policy string

// The policies. Each also does what the ones before it do.
const (
	FsyncNone     Policy = "none"   // never
	FsyncEnd      Policy = "end"    // before a terminal event is visible
	FsyncInterval Policy = "1s"     // and once a second
	FsyncAlways   Policy = "always" // and before any event is visible
)

// ParsePolicy reads a policy; "" is FsyncInterval.
func ParsePolicy(s string) (Policy, error) {
	switch p := Policy(s); p {
	case "":
		return FsyncInterval, nil
	case FsyncNone, FsyncEnd, FsyncInterval, FsyncAlways:
		return p, nil
	}
	return "", fmt.Errorf("journal: fsync policy %q: want none, end, 1s or always", s)
}

// Options are the journal's limits. The zero value of each is its default.
type Options struct {
	Fsync          Policy        // FsyncInterval
	MemoryBytes    int64         // frames kept in memory for the whole server: 64 MiB
	UnwrittenBytes int64         // of one run, before Append waits for the disk: 4 MiB; eight times as much while the disk is full
	SegmentBytes   int64         // size at which a segment is closed: 16 MiB
	BlobBytes      int64         // size above which a value of a non-basic event is cut: 1 MiB
	Retention      time.Duration // how long ended runs are kept: 24 h
	MaxRuns        int           // ended runs kept: 10,000
	MaxBytes       int64         // on disk, ended runs go while there is more: 2 GiB
	FS             FS            // the file layer; nil: the real one
	Logger         *slog.Logger  // nil: slog.Default
	Now            func() time.Time
	// Closing gives the events that close what is open in l as it is visible.
	// End asks for it where events had to be dropped because the disk stayed
	// full, so that what was shown is still closed properly. nil: none.
	Closing func(l *Log) []events.Data
}

func (o *Options) withDefaults() Options {
	var r Options
	if o != nil {
		r = *o
	}
	def(&r.Fsync, FsyncInterval)
	def(&r.MemoryBytes, 64<<20)
	def(&r.UnwrittenBytes, 4<<20)
	def(&r.SegmentBytes, 16<<20)
	def(&r.BlobBytes, 1<<20)
	def(&r.Retention, 24*time.Hour)
	def(&r.MaxRuns, 10_000)
	def(&r.MaxBytes, 2<<30)
	if r.FS == nil {
		r.FS = osFS{}
	}
	if r.Logger == nil {
		r.Logger = slog.Default()
	}
	if r.Now == nil {
		r.Now = time.Now
	}
	return r
}

func def[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// storageFactor is how many times UnwrittenBytes may wait while the disk is full.
const storageFactor = 8

// RunMeta is what is known of a run when it begins.
type RunMeta struct {
	ID             string    `json:"id"`
	Owner          string    `json:"owner,omitempty"`
	ContextID      string    `json:"context_id,omitempty"`
	ConversationID string    `json:"conversation_id,omitempty"`
	Backend        string    `json:"backend,omitempty"`
	Created        time.Time `json:"created"`
	BodyHash       string    `json:"body_hash,omitempty"`    // for an idempotent task_id
	Prompt         string    `json:"prompt,omitempty"`       // the beginning of it, for lists
	PromptWhole    bool      `json:"prompt_whole,omitempty"` // Prompt is all that was said in the request
	// Request is what was asked, without secrets, as valid JSON; kept in
	// request.json, not in memory.
	Request json.RawMessage `json:"-"`
}

// RunEnd is how a run ended.
type RunEnd struct {
	State     string    `json:"state"`
	Reason    string    `json:"reason,omitempty"`
	ErrorType string    `json:"error_type,omitempty"`
	Ended     time.Time `json:"ended"`
	LastID    int64     `json:"last_id"` // set by Log.End
}

// Info is one run in a list.
type Info struct {
	RunMeta         // without Request
	End     *RunEnd // nil while the run has no end
	LastID  int64   // the last visible event
}

// Stats are gauges and counters of a Store.
type Stats struct {
	MemoryBytes int64 // of frames
	DiskBytes   int64 // of runs, about
	Live        int   // runs without an end
	Runs        int   // all runs
	Readers     int   // open cursors
	Lag         int64 // events that the last of them is behind
	Unwritten   int64 // bytes that wait for the disk
	Written     int64 // bytes that the disk has taken
	WriteErrors int64
	SyncErrors  int64
	Damaged     int64 // events that could not be read any more
	Dropped     int64 // events that were never visible, because the disk stayed full
	Full        int   // runs that wait for space now
	MemoryOnly  bool  // what is new is not on disk: from the start on, or because the directory is gone
	DiskFull    bool
	Events      map[events.Type]int64 // that were logged since the start; "" are those of unknown types
}

// What the journal returns; test with errors.Is.
var (
	ErrNotFound = errors.New("journal: no such run")
	ErrExists   = errors.New("journal: the run exists")
	ErrLive     = errors.New("journal: the run has not ended")
	ErrEnded    = errors.New("journal: the run has ended")
	ErrClosed   = errors.New("journal: closed")
	ErrLocked   = errors.New("journal: the state directory is in use")
)

// LockedError names the server that holds the state directory. It is ErrLocked.
type LockedError struct {
	Dir string
	PID int // 0 when unknown
}

func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("journal: the state directory %s is in use by another server", e.Dir)
	}
	return fmt.Sprintf("journal: the state directory %s is in use by process %d", e.Dir, e.PID)
}

// Is makes it ErrLocked.
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// GoneError says that a cursor asked for what is not there: events older than
// those kept, or later than the last.
type GoneError struct{ Oldest, Latest int64 }

func (e *GoneError) Error() string {
	return fmt.Sprintf("only events %d to %d are there", e.Oldest, e.Latest)
}

// StorageError says that a run cannot be logged any further, and must end
// with the error type storage.
type StorageError struct{ Err error }

func (e *StorageError) Error() string { return "journal: storage: " + e.Err.Error() }

// Unwrap gives the error of the file layer.
func (e *StorageError) Unwrap() error { return e.Err }
