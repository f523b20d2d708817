//go:build linux

package server

import (
	"bufio"
	"io"
	"strings"
	"sync"
	"time"
)

// Lines collects the lines of a stream as they come.
type Lines struct {
	mu   sync.Mutex
	got  []string
	more chan struct{} // closed and replaced at every line
	end  chan struct{}
}

// ReadLines reads a stream to its end.
func ReadLines(r io.Reader) *Lines {
	l := &Lines{more: make(chan struct{}), end: make(chan struct{})}
	go func() { // ends with the stream
		defer close(l.end)
		br := bufio.NewReader(r)
		for {
			line, err := br.ReadString('\n')
			l.mu.Lock()
			if line != "" {
				l.got = append(l.got, strings.TrimSuffix(line, "\n"))
			}
			close(l.more)
			l.more = make(chan struct{})
			l.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return l
}

// Wait waits for the stream's end.
func (l *Lines) Wait() { <-l.end }

// String is all that has come.
func (l *Lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.got, "\n")
}

// Until waits for a line that holds s.
func (l *Lines) Until(s string, limit time.Duration) (string, bool) {
	late := time.NewTimer(limit)
	defer late.Stop()
	for i, over := 0, false; ; {
		l.mu.Lock()
		for ; i < len(l.got); i++ {
			if strings.Contains(l.got[i], s) {
				defer l.mu.Unlock()
				return l.got[i], true
			}
		}
		more := l.more
		l.mu.Unlock()
		if over {
			return "", false
		}
		select {
		case <-more:
		case <-l.end:
			over = true
		case <-late.C:
			return "", false
		}
	}
}
