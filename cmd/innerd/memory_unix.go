//go:build linux || darwin

package main

import (
	"bufio"
	"bytes"
	"context"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"
)

// memoryLimit is how much memory this container, or machine, has; 0 where that
// can't be found out.
func memoryLimit() int64 {
	limit := machineMemory()
	for _, path := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64)
		if err == nil && n > 0 && (limit == 0 || n < limit) {
			limit = n
		}
	}
	return limit
}

func machineMemory() int64 {
	raw, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	sc := bufio.NewScanner(bytes.NewReader(raw))
	for sc.Scan() {
		if f := strings.Fields(sc.Text()); len(f) >= 2 && f[0] == "MemTotal:" {
			kb, _ := strconv.ParseInt(f[1], 10, 64)
			return kb << 10
		}
	}
	return 0
}

// garbage is by how many percent the heap may grow before it is collected.
// Most of a busy server's heap is frames and texts that live on, and the
// machine is the agents': half as much garbage costs a few percent of the
// server's time.
const garbage = 50

// Garbage that may gather on a heap however small. Half of the heap of a server
// with little to do is what a few turns leave behind, and to collect it takes as
// much of the machine as all else that innerd does for a turn: it would come in
// the middle of every fourth.
const leastGarbage = 6 << 20

// Memory that the runtime may hold for this process before it collects harder
// and gives back what is idle: small is enough for all but the busiest servers,
// and there it follows what lives.
const (
	smallMemory = 184 << 20
	overLiving  = 1.25
)

// limitMemory keeps the server's own memory small, and to a quarter of what there
// is, so that it collects before the agents beside it are killed. GOGC and
// GOMEMLIMIT, which the runtime reads by itself, win.
func limitMemory(getenv func(string) string) {
	if getenv("GOGC") == "" {
		limitGarbage()
	}
	if getenv("GOMEMLIMIT") != "" {
		return
	}
	most := int64(math.MaxInt64)
	if n := memoryLimit(); n > 0 {
		most = max(n/4, 256<<20)
	}
	limit := memoryFor(0, most)
	debug.SetMemoryLimit(limit)
	afterEachCollection(func() {
		// Each change stops the world for a moment.
		if next := memoryFor(living(), most); next > limit || next < limit*3/4 {
			limit = next
			debug.SetMemoryLimit(limit)
		}
	})
}

// limitGarbage keeps the garbage in bounds, as what lives comes and goes.
func limitGarbage() {
	percent := garbageFor(0)
	debug.SetGCPercent(percent)
	afterEachCollection(func() {
		if next := nextGarbage(percent, living()); next != percent {
			percent = next
			debug.SetGCPercent(percent)
		}
	})
}

// nextGarbage is garbageFor, but what it was where that is nearly the same: each
// change stops the world for a moment. A heap that is not small gets its own.
func nextGarbage(percent int, live int64) int {
	next := garbageFor(live)
	if next != garbage && next <= percent*5/4 && next >= percent*4/5 {
		return percent
	}
	return next
}

// garbageFor is by how many percent a heap may grow of which as many bytes live.
func garbageFor(live int64) int {
	const newborn = 3 << 20 // what lives in a server that has done nothing yet
	return max(garbage, int(100*leastGarbage/max(live, newborn)))
}

// sampleMemory leaves the tables of where memory was allocated empty where
// nobody can ask for a profile: they grow with each new place, by megabytes in
// an hour of mixed work, and are never given back.
func sampleMemory(profiles bool) {
	if !profiles {
		runtime.MemProfileRate = 0
	}
}

// memoryFor is the limit where as many bytes live.
func memoryFor(live, most int64) int64 {
	return min(max(smallMemory, int64(float64(live)*overLiving)), most)
}

// living is how much of the heap the last collection found in use.
func living() int64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return int64(min(sample[0].Value.Uint64(), math.MaxInt64)) //nolint:gosec // it is bounded
}

// afterEachCollection calls f when the garbage was collected, in the runtime's
// own goroutine for finalizers, one call after another.
func afterEachCollection(f func()) {
	type sentinel struct{ _ *byte } // with a pointer: no tiny allocation that others share
	var again func(*sentinel)
	again = func(s *sentinel) {
		f()
		runtime.SetFinalizer(s, again)
	}
	runtime.SetFinalizer(&sentinel{}, again)
}

// Memory of a server that rests.
const (
	restEnough = 10 * time.Second // then it may be so for long
	restLook   = 3 * time.Second
)

// rest gives memory back that only the work needed, once for each time of rest:
// the runtime itself keeps what was free until others press for it, the kernel
// keeps the pages of the program, and those who pay for a container pay for that.
type rest struct {
	since  time.Time // of the rest that it was given back in
	giveUp func()    // trim
}

// look is told since when the server rests, and whether it does.
func (r *rest) look(now, since time.Time, resting bool) {
	if !resting || since.Equal(r.since) || now.Sub(since) < restEnough {
		return
	}
	r.since = since
	r.giveUp()
}

// keepSmall looks until ctx ends.
func (s *server) keepSmall(ctx context.Context) error {
	r := rest{giveUp: trim}
	tick := time.NewTicker(restLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			since, ok := s.resting()
			r.look(now, since, ok)
		}
	}
}

// resting says since when nothing is on that needs memory, after something was:
// no run, and no large request or answer, which may go on when its run is over
// or have none. One that is still on begins another rest at its end.
func (s *server) resting() (since time.Time, ok bool) {
	since, ok = s.runs.Resting()
	large := s.api.LastLarge()
	if since.IsZero() && !large.IsZero() {
		ok = len(s.runs.Live()) == 0
	}
	if large.After(since) {
		since = large
	}
	return since, ok
}
