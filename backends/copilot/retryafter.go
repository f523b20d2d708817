package copilot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"time"
)

// The time after which a provider lets one try again stands in no event, but
// in the log of the process. It is looked for where a run has failed by a
// limit; a log that is not there, or that cannot be read, tells nothing.

var failedLine = []byte("Model provider request failed")

const (
	logTail = 64 << 10               // of the log, where the line must be
	logSlip = 2 * time.Second        // between the event and the line
	logWait = 200 * time.Millisecond // for the line to be written
)

// retryAfter is how long after at the provider of the process wants to be left
// alone; 0: it is not known.
func (p *process) retryAfter(at time.Time) time.Duration {
	if at.IsZero() || p.child == nil {
		return 0
	}
	logs, _ := filepath.Glob(filepath.Join(p.b.home(), "logs", fmt.Sprintf("process-*-%d.log", p.child.PID())))
	for end := time.Now().Add(logWait); len(logs) > 0; time.Sleep(logWait / 10) {
		if d := retryAfterIn(p.b.tailOf(logs[len(logs)-1]), at); d > 0 || time.Now().After(end) {
			return d
		}
	}
	return 0
}

func (b *Backend) tailOf(path string) []byte {
	f, err := b.o.Children.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close() //nolint:errcheck // it was only read
	if info, err := f.Stat(); err == nil && info.Size() > logTail {
		_, _ = f.Seek(info.Size()-logTail, io.SeekStart)
	}
	tail, _ := io.ReadAll(io.LimitReader(f, logTail))
	return tail
}

// retryAfterIn is the time in the last line of a failed request around at.
func retryAfterIn(log []byte, at time.Time) time.Duration {
	var found time.Duration
	for line := range bytes.Lines(log) {
		stamp, _, _ := bytes.Cut(line, []byte(" "))
		when, err := time.Parse(time.RFC3339, string(stamp))
		i := bytes.IndexByte(line, '{')
		if err != nil || i < 0 || !bytes.Contains(line, failedLine) || when.Sub(at).Abs() > logSlip {
			continue
		}
		var f struct {
			RetryAfterMS num `json:"retry_after_ms"`
		}
		_ = lenient(json.Unmarshal(line[i:], &f)) // a line without one tells none
		found = time.Duration(f.RetryAfterMS) * time.Millisecond
	}
	return found
}
