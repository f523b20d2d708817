package ledger

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"innerd/events"
)

// Log is a run's log as it is on disk, read without a server.
type Log struct {
	Faults []string // what was wrong with it

	sums  []uint64 // of the events 1, …
	types []events.Type
}

// Disk reads the log in STATE/runs/<id>. The server that writes it may run: a
// last line that is not whole yet is left out then, and a fault otherwise.
func Disk(dir string, live bool) (*Log, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("ledger: there is no log in %s", dir)
	}
	if err != nil {
		return nil, err
	}
	l := &Log{}
	for _, path := range files { // named by their first ids, so in order
		if err := l.segment(path, live); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func (l *Log) segment(path string, live bool) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	br := bufio.NewReaderSize(f, 1<<20)
	for {
		line, err := br.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			if len(line) > 0 && !live {
				l.fault("%s: the last line is not whole", path)
			}
			return nil
		}
		if err != nil {
			return err
		}
		l.Add(bytes.TrimSuffix(line, []byte("\n")))
	}
}

// Add adds the next line. One without the next id is a fault.
func (l *Log) Add(line []byte) {
	id := int64(len(l.sums)) + 1
	if !bytes.HasPrefix(line, fmt.Appendf(nil, `{"id":%d,`, id)) {
		l.fault("in the place of event %d the log has %.120q", id, line)
	}
	l.sums, l.types = append(l.sums, sum(line)), append(l.types, TypeOf(line))
}

func (l *Log) fault(format string, args ...any) {
	if len(l.Faults) < maxFaults {
		l.Faults = append(l.Faults, "the log: "+fmt.Sprintf(format, args...))
	}
}

// Last is the last event's id.
func (l *Log) Last() int64 { return int64(len(l.sums)) }

// Type is the type of an event, "" where there is none.
func (l *Log) Type(id int64) events.Type {
	_, typ := l.at(id)
	return typ
}

// at gives the checksum and the type of an event, zeros where there is none.
func (l *Log) at(id int64) (uint64, events.Type) {
	if id < 1 || id > l.Last() {
		return 0, ""
	}
	return l.sums[id-1], l.types[id-1]
}

// TypeOf is the type of an event's line without a look at its data: runs are long.
func TypeOf(line []byte) events.Type {
	_, rest, _ := strings.Cut(string(line[:min(len(line), 128)]), `"type":"`)
	typ, _, ok := strings.Cut(rest, `"`)
	if !ok {
		return ""
	}
	for _, known := range frequent { // no string a line for what is nearly all
		if typ == string(known) {
			return known
		}
	}
	return events.Type(typ)
}

var frequent = []events.Type{events.TypeMessageDelta, events.TypeReasoningDelta}
