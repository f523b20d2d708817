package adapter

import (
	"sync"
	"time"

	"innerd/adapter/api"
)

// registry counts the streams that are open.
type registry struct {
	mu   sync.Mutex
	open map[*openStream]struct{}
}

type openStream struct {
	run   Run
	began time.Time
}

// add counts a stream until the function it returns is called.
func (g *registry) add(run Run) (remove func()) {
	st := &openStream{run, time.Now()}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open == nil {
		g.open = map[*openStream]struct{}{}
	}
	g.open[st] = struct{}{}
	return func() {
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
		streams[st.run.ID()] = info
	}
	return streams, count
}
