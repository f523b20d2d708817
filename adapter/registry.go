package adapter

import (
	"sync"
	"sync/atomic"
	"time"

	"innerd/adapter/api"
)

// registry counts the streams that are open.
type registry struct {
	mu   sync.Mutex
	open map[*openStream]struct{}
}

type openStream struct {
	run     Run
	began   time.Time
	at      atomic.Int64 // the last event that was written
	writing atomic.Int64 // since when a write is on, in Unix nanoseconds; 0: none is
}

// begins notes that a reader is given something, rests that it has it.
func (st *openStream) begins(now time.Time) { st.writing.Store(now.UnixNano()) }
func (st *openStream) rests()               { st.writing.Store(0) }

// stall is how long a reader takes nothing that it should take.
func (st *openStream) stall(now time.Time) time.Duration {
	since := st.writing.Load()
	if since == 0 || st.run.OpenToolRequests() {
		return 0
	}
	return max(now.Sub(time.Unix(0, since)), 0)
}

// lag is how many events the reader is behind.
func (st *openStream) lag() int64 { return max(st.run.Log().Last()-st.at.Load(), 0) }

// measure counts the streams, and says how long the most patient reader has
// taken nothing.
func (g *registry) measure() (count int, stall time.Duration) {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	for st := range g.open {
		stall = max(stall, st.stall(now))
	}
	return len(g.open), stall
}

// add counts a stream until the function it returns is called.
func (g *registry) add(run Run, after int64) (st *openStream, remove func()) {
	st = &openStream{run: run, began: time.Now()}
	st.at.Store(after)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open == nil {
		g.open = map[*openStream]struct{}{}
	}
	g.open[st] = struct{}{}
	return st, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.open, st)
	}
}

// of lists the streams of an owner's tasks.
func (g *registry) of(owner string) (streams map[string]api.StreamInfo, count int) {
	streams = map[string]api.StreamInfo{}
	g.mu.Lock()
	defer g.mu.Unlock()
	for st := range g.open {
		if st.run.Log().Meta().Owner != owner {
			continue
		}
		count++
		info := streams[st.run.ID()]
		info.Readers++
		info.ElapsedS = max(info.ElapsedS, seconds(time.Since(st.began)))
		info.Lag, info.StallS = max(info.Lag, st.lag()), max(info.StallS, seconds(st.stall(time.Now())))
		streams[st.run.ID()] = info
	}
	return streams, count
}
