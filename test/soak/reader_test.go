//go:build linux

package soak_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"innerd/test/ledger"
)

// visits counts what readers did.
type visits struct{ connects, resumes, whole, left, slow atomic.Int64 }

// reader is one of those that come and go: it takes a run that is on or was
// so a moment ago, from its beginning or from somewhere in it, leaves it at
// any byte, comes back with the last id that it saw, and stays to the end or
// goes for good.
func (s *soak) reader(ctx context.Context, n int) {
	for ctx.Err() == nil {
		r := s.floor.pick()
		if r == nil {
			pause(ctx, 50*time.Millisecond)
			continue
		}
		s.visit(ctx, n, r)
		r.leave()
		pause(ctx, time.Duration(rand.IntN(1500))*time.Millisecond)
	}
}

// visit reads one run.
func (s *soak) visit(ctx context.Context, n int, r *run) {
	rd := r.ledger.Reader(fmt.Sprintf("reader %d of %s", n, r.id))
	after := int64(0)
	if rand.IntN(3) == 0 {
		after = rand.Int64N(r.first.Last() + 1)
		rd.After(after)
	}
	slow := rand.IntN(8) == 0
	if slow {
		s.visits.slow.Add(1)
	}
	for again := false; ctx.Err() == nil; again = true {
		if again {
			s.visits.resumes.Add(1)
		}
		s.visits.connects.Add(1)
		if whole := s.connect(ctx, r, rd, again, after, slow); whole {
			rd.Whole()
			s.visits.whole.Add(1)
			return
		}
		if rand.IntN(4) == 0 {
			s.visits.left.Add(1)
			return
		}
		pause(ctx, time.Duration(rand.IntN(500))*time.Millisecond)
	}
}

// connect reads over one connection, to the end of the run or until the
// reader hangs up.
func (s *soak) connect(ctx context.Context, r *run, rd *ledger.Reader, again bool, after int64, slow bool) (whole bool) {
	ctx, hangUp := context.WithCancel(ctx)
	defer hangUp()
	path, header := "/tasks/"+r.id+"/events", []string(nil)
	switch {
	case again && rd.Last() > 0:
		header = []string{"Last-Event-ID", strconv.FormatInt(rd.Last(), 10)}
	case after > 0:
		path += "?after=" + strconv.FormatInt(after, 10)
	}
	resp, err := s.c.open(ctx, http.MethodGet, path, nil, header...)
	if err != nil {
		if ctx.Err() == nil {
			s.fail("GET %s: %v", path, err)
		}
		return false
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	if resp.StatusCode == http.StatusNoContent {
		return true
	}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		s.fail("GET %s %v: %s: %s", path, header, resp.Status, text)
		return false
	}
	body := &fickle{ctx: ctx, r: resp.Body, slow: slow, left: -1}
	if rand.IntN(2) == 0 {
		body.left, body.leave = rand.IntN(20_000), hangUp
		stop := time.AfterFunc(time.Duration(rand.IntN(5000))*time.Millisecond, hangUp)
		defer stop.Stop()
	}
	err = rd.Read(body)
	if err != nil && ctx.Err() == nil {
		s.fail("GET %s: the stream ended with %v", path, err)
	}
	return err == nil
}

// fickle is a body whose reader may be slow, and leaves after so many bytes; a
// negative number is never.
type fickle struct {
	ctx   context.Context
	r     io.Reader
	slow  bool
	left  int
	leave func()
}

func (f *fickle) Read(p []byte) (int, error) {
	if f.slow {
		pause(f.ctx, time.Duration(1+rand.IntN(20))*time.Millisecond)
		p = p[:min(len(p), 1024)]
	}
	if f.left >= 0 {
		p = p[:min(len(p), f.left)]
	}
	if len(p) == 0 {
		f.leave()
		return 0, context.Canceled
	}
	n, err := f.r.Read(p)
	if f.left >= 0 {
		f.left -= n
	}
	return n, err
}
