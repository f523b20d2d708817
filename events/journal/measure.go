package journal

import (
	"log/slog"
	"math/bits"

	"innerd/events"
)

// LogAttr names the run in a line of a log, with its conversation and backend:
// every line about a run has it, and no other way of naming one is used.
func (m RunMeta) LogAttr() slog.Attr {
	return slog.Group("", "run", m.ID, "conversation", m.ConversationID, "backend", m.Backend)
}

// tally counts the events of one log by class until the next publication, so
// that an event costs an addition, and a batch of them one that others see.
type tally struct {
	n    [classOther + 1]uint32
	mask uint64 // classes that were counted
}

func (l *Log) countLocked(class uint8) {
	if l.fresh == nil {
		l.fresh = new(tally)
	}
	l.fresh.n[class]++
	l.fresh.mask |= 1 << class
}

// tellLocked adds what was counted to the store's counts.
func (l *Log) tellLocked() {
	t := l.fresh
	if t == nil {
		return
	}
	for m := t.mask; m != 0; m &= m - 1 {
		k := bits.TrailingZeros64(m)
		l.s.counts[k].Add(int64(t.n[k]))
		t.n[k] = 0
	}
	t.mask = 0
}

// events gives how many events of each type were logged; "" are all others.
func (s *Store) events() map[events.Type]int64 {
	out := make(map[events.Type]int64, len(classTypes)+1)
	for k, t := range classTypes {
		out[t] = s.counts[k].Load()
	}
	out[""] = s.counts[classOther].Load()
	return out
}

// Readers says how many read the log now, and how many events the last of them
// is behind.
func (l *Log) Readers() (n int, lag int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.readersLocked()
}

func (l *Log) readersLocked() (n int, lag int64) {
	for c := range l.cursors {
		lag = max(lag, l.last-c.seen)
	}
	return l.readers, lag
}

// wroteBytes counts what a write took, and whether it failed.
func (s *Store) wroteBytes(n int, err error) {
	s.written.Add(int64(n))
	if err != nil {
		s.writeErrors.Add(1)
	}
}
