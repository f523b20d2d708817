//go:build linux

package server

import (
	"bufio"
	"io"
	"strings"
	"sync"
	"time"
)

// lines collects the lines of a stream as they come.
type lines struct {
	mu   sync.Mutex
	got  []string
	more chan struct{} // closed and replaced at every line
	end  chan struct{}
}

func readLines(r io.Reader) *lines {
	l := &lines{more: make(chan struct{}), end: make(chan struct{})}
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

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.got, "\n")
}

// until waits for a line that holds s.
func (l *lines) until(s string, limit time.Duration) (string, bool) {
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
