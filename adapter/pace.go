package adapter

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// slowest is what a body must bring on average, in bytes a second, once ten
// times its progress are over: less holds a connection and is no upload.
const slowest = 1 << 10

// pacedBody gives a body up that stops coming, or that comes a byte now and
// then. Without it a connection could be held for ever, also by callers without
// a key: net/http reads what is left of a body before it answers.
type pacedBody struct {
	io.ReadCloser
	rc       *http.ResponseController
	progress time.Duration // without a byte
	began    time.Time     // the first Read; zero before it
	n        int64
}

// paced puts the pace under a request's body, whoever reads it.
func (s *Server) paced(w http.ResponseWriter, r *http.Request) {
	if r.Body == nil || r.Body == http.NoBody {
		return
	}
	b := &pacedBody{ReadCloser: r.Body, rc: http.NewResponseController(w), progress: s.opt.ReadProgress}
	b.arm() // for what nobody reads
	r.Body = b
}

func (b *pacedBody) arm() {
	next := time.Now().Add(b.progress) // each time anew: slow is not stalled
	if b.began.IsZero() {
		_ = b.rc.SetReadDeadline(next)
		return
	}
	if last := b.began.Add(10*b.progress + time.Duration(b.n/slowest)*time.Second); last.Before(next) {
		next = last
	}
	_ = b.rc.SetReadDeadline(next)
}

// Read implements io.Reader.
func (b *pacedBody) Read(p []byte) (int, error) {
	if b.began.IsZero() {
		b.began = time.Now() // a call that waited for its place has not stalled
	}
	b.arm()
	n, err := b.ReadCloser.Read(p)
	b.n += int64(n)
	if errors.Is(err, io.EOF) {
		// The watch for a client that is gone reads too, and must not run into
		// the deadline of the body.
		_ = b.rc.SetReadDeadline(time.Time{})
	}
	return n, err
}

// waited takes a time out of the pace in which nobody read.
func (b *pacedBody) waited(d time.Duration) {
	if !b.began.IsZero() {
		b.began = b.began.Add(d)
	}
}

// unpaced is the body itself, for who sets deadlines of its own and keeps
// nothing of it.
func unpaced(body io.ReadCloser) io.ReadCloser {
	switch b := body.(type) {
	case *weighedBody:
		return unpaced(b.ReadCloser)
	case *pacedBody:
		return b.ReadCloser
	}
	return body
}
