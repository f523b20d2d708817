package journal

import (
	"bytes"
	"strconv"
	"time"

	"innerd/events"
)

// retrySpace is how often a run whose lines wait for space tries again.
const retrySpace = 200 * time.Millisecond

// waitSpaceLocked is what the writer does after a write failed: it gives up
// ended runs, oldest first; when there are none, it says so in the log, from
// the reserve, and waits a while. False: the run is ending, or the store
// closes, and another takes over.
func (l *Log) waitSpaceLocked(err error) bool {
	if diskFull(err) {
		l.mu.Unlock()
		dropped := l.s.dropOldest()
		l.mu.Lock()
		if dropped {
			return !l.ending
		}
	}
	l.cause = err
	l.s.noteShort(err)
	if !l.full {
		l.full = true
		l.s.full.Add(1)
		l.cond.Broadcast()
		l.s.log.Error("journal: storage takes no more; events wait unseen", l.meta.LogAttr(), "err", err)
		l.sayFullLocked(err)
	}
	if l.ending || l.s.closed.Load() {
		return false
	}
	if l.disk.kick == nil {
		l.disk.kick = make(chan struct{}, 1)
	}
	kick := l.disk.kick
	l.mu.Unlock()
	timer := time.NewTimer(retrySpace)
	select {
	case <-timer.C:
	case <-kick:
	}
	timer.Stop()
	l.mu.Lock()
	return !l.ending && !l.s.closed.Load()
}

// kickWriter ends the writer's wait for space. The caller holds the lock.
func (d *disk) kickWriter() {
	if d.kick != nil {
		select {
		case d.kick <- struct{}{}:
		default:
		}
	}
}

// spaceBackLocked notes that everything was written.
func (l *Log) spaceBackLocked() {
	if !l.full {
		return
	}
	l.full = false
	l.s.full.Add(-1)
	l.s.log.Info("journal: storage takes events again", l.meta.LogAttr())
	l.mu.Unlock()
	l.s.restoreReserve()
	l.mu.Lock()
}

// sayFullLocked writes a status from the reserve, before the lines that wait,
// so that readers know why they see nothing. The lines that wait move up by
// one id; nobody has seen them.
func (l *Log) sayFullLocked(cause error) {
	if diskFull(cause) {
		l.mu.Unlock()
		l.s.giveReserve(reserveOfEnds)
		l.mu.Lock()
	}
	if l.last == 0 {
		if !l.beginFromReserveLocked() {
			return
		}
		if len(l.lines) == 0 { // nothing waits any more
			l.full = false
			l.s.full.Add(-1)
			return
		}
	}
	status := events.Status{State: events.StateStorage, Detail: "storage is full: " + cause.Error()}
	line, err := events.AppendLine(nil, l.last+1, l.s.opt.Now().UnixMilli(), status)
	if err != nil {
		return
	}
	line = append(line, '\n')
	l.mu.Unlock()
	_, err = l.disk.write(l, line)
	l.mu.Lock()
	if err != nil {
		return // the reserve was not enough: they wait without a word
	}
	waiting := l.lines
	l.lines = nil
	l.dropUnseenLocked()
	l.addLineLocked(line[:len(line)-1])
	l.lines = l.lines[:0] // it is written
	for len(waiting) > 0 {
		n := bytes.IndexByte(waiting, '\n')
		l.addLineLocked(waiting[:n])
		waiting = waiting[n+1:]
	}
	l.disk.dirty = true
	l.disk.publishLocked()
	l.publishLocked(l.last + 1)
}

// beginFromReserveLocked writes the first of the lines that wait: by it readers
// know whose log this is, so that nothing may come before it.
func (l *Log) beginFromReserveLocked() bool {
	n := bytes.IndexByte(l.lines, '\n') + 1
	first := bytes.Clone(l.lines[:n])
	l.mu.Unlock()
	_, err := l.disk.write(l, first)
	l.mu.Lock()
	if err != nil {
		return false
	}
	l.lines = l.lines[n:]
	l.disk.dirty = true
	l.disk.publishLocked()
	l.publishLocked(1)
	return true
}

// addLineLocked adds an encoded line under the next id, whatever its own.
func (l *Log) addLineLocked(line []byte) {
	rest := line[bytes.IndexByte(line, ','):]
	c := l.tailLocked(len(line) + frameExtra + 20)
	buf := append(c.buf, framePrefix...)
	buf = strconv.AppendInt(buf, l.next, 10)
	buf = append(buf, frameMiddle...)
	start := len(buf)
	buf = append(buf, `{"id":`...)
	buf = strconv.AppendInt(buf, l.next, 10)
	buf = append(buf, rest...)
	buf = append(buf, "\n\n"...)
	c.mark(buf, classOfLine(line))
	l.lines = append(l.lines, buf[start:len(buf)-1]...)
	l.next++
}

// dropUnseenLocked forgets the frames of events that are not visible.
func (l *Log) dropUnseenLocked() {
	n := len(l.chunks)
	for n > 0 && l.chunks[n-1].first > l.last {
		l.mem -= l.chunks[n-1].size
		l.chunks[n-1].release()
		l.chunks[n-1] = nil
		n--
	}
	l.chunks = l.chunks[:n]
	if n > 0 {
		c := l.chunks[n-1]
		c.truncate(int(l.last - c.first + 1))
	}
	l.next = l.last + 1
}

// endFromReserveLocked ends a run whose last lines the disk does not take:
// what nobody has seen is dropped, and the end is written from the reserve
// with the ids after the last written one.
func (l *Log) endFromReserveLocked(d *[]events.Data, e *RunEnd, cause error) error {
	dropped := l.next - 1 - l.last - int64(len(*d))
	l.dropUnseenLocked()
	l.s.dropped.Add(max(dropped, 0))
	l.mu.Unlock()
	var all []events.Data
	if l.s.opt.Closing != nil {
		all = l.s.opt.Closing(l)
	}
	l.mu.Lock()
	last := storageEnd(*d, e, cause)
	all = append(all, last...)
	*d = all
	for _, v := range all {
		body, err := events.AppendLine(nil, 0, 0, v)
		if err == nil {
			_, err = l.addLocked(nil, body, classOf(v.EventType()))
		}
		if err != nil {
			l.s.log.Error("journal: closing event", l.meta.LogAttr(), "err", err)
		}
	}
	buf := l.lines
	l.lines = nil
	e.LastID = l.next - 1
	l.mu.Unlock()
	n, err := l.writeEnd(buf)
	if err != nil && diskFull(err) && l.disk.endInStock(l, buf[n:]) == nil {
		err = nil
	}
	for err != nil && diskFull(err) && l.s.giveReserve(0) { // for as much as others leave of it
		var k int
		k, err = l.writeEnd(buf[n:])
		n += k
	}
	var promised error
	if err != nil {
		promised = l.promise(last, *e)
	}
	l.mu.Lock()
	l.disk.publishLocked()
	if err != nil {
		// A reader that waits for ever is worse than an end that a restart does
		// not know: without the promise it is then closed as any run without one.
		l.volatile, l.unwritten = true, true
		l.s.log.Error("journal: the end of a run is in memory only", l.meta.LogAttr(), "err", err, "noted", promised == nil)
	}
	return &StorageError{Err: cause}
}

// storageEnd gives the last two events of a run that lost some: those of d if
// they say so, else its own, and makes e say the same.
func storageEnd(d []events.Data, e *RunEnd, cause error) []events.Data {
	if e.ErrorType == events.ErrStorage {
		var last []events.Data
		for _, v := range d {
			if t := v.EventType(); t == events.TypeError || t == events.TypeEnd {
				last = append(last, v)
			}
		}
		return last
	}
	e.State, e.Reason, e.ErrorType = events.Failed, events.ErrStorage, events.ErrStorage
	return []events.Data{
		events.NewError(events.ErrStorage, "events could not be stored: "+cause.Error()),
		events.End{State: events.Failed, Reason: events.ErrStorage},
	}
}
