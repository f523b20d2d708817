package adapter

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"innerd/runs"
)

const (
	firstBuffer = 64 << 10 // a Content-Length is only a promise
	drainLimit  = 32 << 20 // of a body that is too large, so that its sender reads the answer
	drainTime   = 2 * time.Second
	// stopDrainTime is the same where the server stops, and soon cuts who is left.
	stopDrainTime = 500 * time.Millisecond
)

// readBody reads a request's body, at most the limit, and gives up when it
// stops coming, as its pace says.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	limit := s.opt.BodyLimit
	if r.ContentLength > limit {
		return nil, s.tooLarge(w, r)
	}
	buf := bytes.NewBuffer(make([]byte, 0, max(bytes.MinRead, min(r.ContentLength+bytes.MinRead, firstBuffer))))
	for {
		if n := r.ContentLength - int64(buf.Len()); buf.Len() > light && n > 0 {
			buf.Grow(int(n) + bytes.MinRead) // once: doubling would need three times as much
		}
		err := readSome(buf, r.Body)
		if int64(buf.Len()) > limit {
			return nil, s.tooLarge(w, r)
		}
		switch {
		case errors.Is(err, io.EOF):
			return buf.Bytes(), nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			w.Header().Set("Connection", "close") // the rest would be taken for a request
			return nil, errSlowBody
		case errors.Is(err, errHungUp), errors.Is(err, errCut):
			panic(http.ErrAbortHandler) // it waited, and nobody is there to read an answer, or no time to
		case errors.Is(err, runs.ErrDraining): // it waited
			s.readOn(w, r, stopDrainTime)
			return nil, runs.ErrDraining
		case err != nil:
			return nil, &bodyError{err}
		}
	}
}

// readSome reads once, as much as there is room for.
func readSome(buf *bytes.Buffer, r io.Reader) error {
	buf.Grow(bytes.MinRead)
	room := buf.AvailableBuffer()
	n, err := r.Read(room[:cap(room)])
	_, _ = buf.Write(room[:n])
	return err
}

// tooLarge is the error of a body that is over the limit, which its sender gets
// to read.
func (s *Server) tooLarge(w http.ResponseWriter, r *http.Request) error {
	PutDown(r.Context()) // of what is read now nothing is kept
	s.readOn(w, r, drainTime)
	return fmt.Errorf("%w: more than %d bytes", errTooLarge, s.opt.BodyLimit)
}

// readOn reads a body that is refused for a while: many clients only look for
// an answer when they have sent everything.
func (s *Server) readOn(w http.ResponseWriter, r *http.Request, limit time.Duration) {
	rc := http.NewResponseController(w)
	w.Header().Set("Connection", "close")
	if r.Header.Get("Expect") == "" { // who expects a 100 has not begun to send
		_ = rc.SetReadDeadline(time.Now().Add(limit))
		_, _ = io.CopyN(io.Discard, unpaced(r.Body), drainLimit)
	}
	_ = rc.SetReadDeadline(time.Now())
}
