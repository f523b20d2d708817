package ledger

import (
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	"innerd/events"
)

// seed is one for all checksums of this process, which are never zero.
var seed = maphash.MakeSeed()

func sum(line []byte) uint64 { return max(maphash.Bytes(seed, line), 1) }

// Ledger is of one run. Its methods may be called at the same time.
type Ledger struct {
	mu      sync.Mutex
	readers []*Reader
}

// New is a ledger without readers.
func New() *Ledger { return &Ledger{} }

// Reader adds one, who is given all events from the first on until it is told
// otherwise. It may come back over as many connections as it likes.
func (l *Ledger) Reader(name string) *Reader {
	r := &Reader{name: name}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.readers = append(l.readers, r)
	return r
}

// Reader is one reader of a run. Its methods may be called at the same time.
type Reader struct {
	name string

	mu         sync.Mutex
	changed    chan struct{} // where somebody waits: closed at the next event
	after      int64
	whole      bool
	keep       func(events.Type) bool
	sums       []uint64 // of the events after+1, …; 0: not given
	last       int64    // the highest id
	given      int64
	duplicated int64
	unlike     int64 // of the duplicates: with another content
	faults     []string
}

// Name is what it was called.
func (r *Reader) Name() string { return r.name }

// After says that the reader asked for what comes after an id. Call it before
// the first event.
func (r *Reader) After(id int64) *Reader {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.after, r.last = id, id
	return r
}

// Whole says that the reader must have been given all there is, not only all
// up to the last that it has.
func (r *Reader) Whole() *Reader {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.whole = true
	return r
}

// Keep says which types the reader asked for; nil is all of them.
func (r *Reader) Keep(keep func(events.Type) bool) *Reader {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keep = keep
	return r
}

// Add takes one event: its id and its line as it came, without a line end. The
// line is not kept.
func (r *Reader) Add(id int64, line []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.given++
	s := sum(line)
	at := id - r.after - 1
	switch {
	case at < 0:
		r.faultLocked("event %d came to who asked for those after %d", id, r.after)
		r.duplicated++
		return
	case at < int64(len(r.sums)) && r.sums[at] != 0:
		r.duplicated++
		if r.sums[at] != s {
			r.unlike++
			r.faultLocked("event %d came twice, and otherwise", id)
		}
		return
	case id < r.last:
		r.faultLocked("event %d came after %d", id, r.last)
	}
	for int64(len(r.sums)) <= at {
		r.sums = append(r.sums, 0)
	}
	r.sums[at], r.last = s, max(r.last, id)
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// Fault notes what was wrong beside the events.
func (r *Reader) Fault(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faultLocked(format, args...)
}

const maxFaults = 10 // of one reader

func (r *Reader) faultLocked(format string, args ...any) {
	if len(r.faults) < maxFaults {
		r.faults = append(r.faults, r.name+": "+fmt.Sprintf(format, args...))
	}
}

// Last is the highest id that came.
func (r *Reader) Last() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// Moved gives the highest id, and a channel that is closed when there is a
// higher one.
func (r *Reader) Moved() (last int64, more <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	return r.last, r.changed
}

// Result is what a comparison found. All but the first two must be zero.
type Result struct {
	Expected   int64    // that the readers had to be given: all that they saw, and of whole ones all there is
	Delivered  int64    // that they were given
	Duplicated int64    // ids that came to a reader more than once
	Lost       int64    // that a reader was not given, or that were given and are not in the log
	Changed    int64    // that came otherwise than they are in the log
	Faults     []string // the first few, and what else was wrong
}

// OK reports whether nothing was wrong.
func (r Result) OK() bool {
	return r.Duplicated == 0 && r.Lost == 0 && r.Changed == 0 && len(r.Faults) == 0
}

// Add adds another run's result.
func (r *Result) Add(o Result) {
	r.Expected += o.Expected
	r.Delivered += o.Delivered
	r.Duplicated += o.Duplicated
	r.Lost += o.Lost
	r.Changed += o.Changed
	r.Faults = append(r.Faults, o.Faults...)
}

func (r Result) String() string {
	return fmt.Sprintf("expected %d, delivered %d, duplicated %d, lost %d, changed %d", r.Expected, r.Delivered, r.Duplicated, r.Lost, r.Changed)
}

// Head is the head of a table of results.
const Head = "| fault | expected | delivered | duplicated | lost | changed | time |\n|---|---:|---:|---:|---:|---:|---:|"

// Row is the result's row under Head.
func (r Result) Row(name string, took time.Duration) string {
	return fmt.Sprintf("| %s | %d | %d | %d | %d | %d | %.1f s |", name, r.Expected, r.Delivered, r.Duplicated, r.Lost, r.Changed, took.Seconds())
}

// Compare compares what all readers were given so far with the log.
func (l *Ledger) Compare(log *Log) Result {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := Result{Faults: append([]string(nil), log.Faults...)}
	for _, r := range l.readers {
		out.Add(r.compare(log))
	}
	return out
}

func (r *Reader) compare(log *Log) Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := Result{Delivered: r.given, Duplicated: r.duplicated, Changed: r.unlike}
	end := r.last
	if r.whole {
		end = max(end, log.Last())
	}
	for id := r.after + 1; id <= end; id++ {
		var got uint64
		if at := id - r.after - 1; at < int64(len(r.sums)) {
			got = r.sums[at]
		}
		want, typ := log.at(id)
		wanted := want != 0 && (r.keep == nil || r.keep(typ))
		if wanted || got != 0 {
			out.Expected++
		}
		switch {
		case got == 0 && wanted:
			out.Lost++
			r.faultLocked("event %d (%s) was not given", id, typ)
		case got != 0 && want == 0:
			out.Lost++
			r.faultLocked("event %d was given, and is not in the log", id)
		case got != 0 && got != want:
			out.Changed++
			r.faultLocked("event %d (%s) was given otherwise than it is in the log", id, typ)
		}
	}
	out.Faults = append(out.Faults, r.faults...)
	return out
}
