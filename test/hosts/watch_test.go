//go:build linux

package hosts_test

import (
	"bytes"
	"strings"
	"sync"
)

// watch is a writer that tells when something was written.
type watch struct {
	buf  *bytes.Buffer
	want string
	once sync.Once
	seen chan struct{}
}

func newWatch(buf *bytes.Buffer, want string) *watch {
	return &watch{buf: buf, want: want, seen: make(chan struct{})}
}

func (w *watch) Write(p []byte) (int, error) {
	w.buf.Write(p)
	if strings.Contains(w.buf.String(), w.want) {
		w.once.Do(func() { close(w.seen) })
	}
	return len(p), nil
}
