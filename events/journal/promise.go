package journal

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"innerd/events"
)

// promise is the end of a run of which nothing had room: what readers were told
// of it is noted in a file of the stock, so that whoever closes the run after a
// restart says the same. What closes the open message is not in it, which may
// be of any length: that is made again from the log.
type promise struct {
	End  RunEnd   `json:"end"`
	Last [][]byte `json:"last"` // the lines of the error and the end
}

const promiseName = "end.json"

// promise notes how a run ended whose end is in memory only. The caller holds
// the writer's token, not the lock.
func (l *Log) promise(last []events.Data, e RunEnd) error {
	p := promise{End: e}
	for _, v := range last {
		line, err := events.AppendLine(nil, 0, 0, v)
		if err != nil {
			return err
		}
		p.Last = append(p.Last, line)
	}
	raw, err := json.Marshal(p)
	if err != nil {
		return err
	}
	if len(raw) > stockBytes {
		return errNoStock
	}
	l.s.stock.out.Add(1) // before it is taken
	defer l.s.stock.out.Add(-1)
	name, ok := l.s.stock.take()
	if !ok {
		return errNoStock
	}
	f, err := l.s.openKept(name, os.O_RDWR)
	if err != nil {
		return err
	}
	if _, err = writeAt(f, raw, 0); err == nil {
		err = f.Truncate(int64(len(raw)))
	}
	if err == nil && l.s.opt.Fsync != FsyncNone {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = l.s.fs.Rename(name, filepath.Join(l.dir, promiseName))
	}
	if err != nil {
		_ = l.s.fs.Remove(name)
	}
	return err
}

// Promised gives how a run that was found without an end did end, as its
// readers were told: the last events, without those that close what is open in
// the log, and what to end it with. False: nobody was told of an end.
func (l *Log) Promised() (last []events.Data, e RunEnd, ok bool) {
	if l.dir == "" {
		return nil, e, false
	}
	raw, err := readFile(l.s.fs, filepath.Join(l.dir, promiseName))
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			l.s.log.Warn("journal: how a run ended can't be read", l.meta.LogAttr(), "err", err)
		}
		return nil, e, false
	}
	var p promise
	if err := json.Unmarshal(raw, &p); err != nil {
		l.s.log.Warn("journal: how a run ended can't be read", l.meta.LogAttr(), "err", err)
		return nil, e, false
	}
	for _, line := range p.Last {
		v, err := events.ParseLine(line)
		if err != nil {
			return nil, e, false
		}
		last = append(last, v.Data)
	}
	// Where the first of them had room, the log has them.
	if have := l.Last() - (p.End.LastID - int64(len(last))); have > 0 {
		last = last[min(int(have), len(last)):]
	}
	return last, p.End, len(last) > 0
}
