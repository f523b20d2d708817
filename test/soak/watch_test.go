//go:build linux

package soak_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// sample is what a server holds at a time, as the machine and it itself say.
type sample struct {
	vitals
	at         time.Time
	goroutines int
	heap       float64 // bytes that the last collection found alive
	runtime    runtimeMemory
	streams    int
	runs       int // that are on
	kept       int // runs in the journal
	agents     int
}

// metrics reads /metrics: the sum of each name over its labels.
func (c *client) metrics(ctx context.Context) (map[string]float64, error) {
	status, answer, err := c.call(ctx, http.MethodGet, "/metrics", nil)
	if err != nil || status != http.StatusOK {
		return nil, fmt.Errorf("GET /metrics: status %d, %w", status, err)
	}
	out := map[string]float64{}
	for line := range strings.Lines(string(answer)) {
		at := strings.LastIndexByte(strings.TrimSpace(line), ' ')
		if at < 0 || line[0] == '#' {
			continue
		}
		name, _, _ := strings.Cut(line[:at], "{")
		v, err := strconv.ParseFloat(strings.TrimSpace(line[at+1:]), 64)
		if err != nil {
			return nil, fmt.Errorf("GET /metrics: %q: %w", line, err)
		}
		out[name] += v
	}
	return out, nil
}

// watched are the names that a sample is made of.
var watched = []string{"go_goroutines", "go_gc_heap_live_bytes", "innerd_http_streams", "innerd_runs", "innerd_journal_runs", "innerd_agent_processes"}

// sample looks at the server.
func (c *client) sample(ctx context.Context, pid int) (s sample, err error) {
	m, err := c.metrics(ctx)
	if err != nil {
		return s, err
	}
	for _, name := range watched {
		if _, ok := m[name]; !ok {
			err = errors.Join(err, fmt.Errorf("GET /metrics has no %s", name))
		}
	}
	v, lerr := look(pid)
	return sample{
		vitals: v, at: time.Now(), goroutines: int(m["go_goroutines"]), heap: m["go_gc_heap_live_bytes"],
		streams: int(m["innerd_http_streams"]), runs: int(m["innerd_runs"]), kept: int(m["innerd_journal_runs"]), agents: int(m["innerd_agent_processes"]),
	}, errors.Join(err, lerr)
}

// series is what a watcher has seen.
type series struct {
	mu  sync.Mutex
	all []sample
	err error
}

// watch looks every second until ctx ends, but not while another looks: a call
// is something that the server does.
func (w *series) watch(ctx context.Context, c *client, pid int, looks *sync.Mutex) {
	for pause(ctx, time.Second) {
		looks.Lock()
		s, err := c.sample(ctx, pid)
		looks.Unlock()
		w.mu.Lock()
		if err == nil {
			w.all = append(w.all, s)
		} else if ctx.Err() == nil && w.err == nil {
			w.err = err
		}
		w.mu.Unlock()
	}
}

// collected looks at what the server holds at rest, before it is asked for
// anything that costs it memory; then has it collect its garbage, for what of
// the heap is alive. Where reports are kept it leaves a profile of the heap, for
// who wonders what grows.
func (c *client) collected(ctx context.Context, pid int) (s sample, err error) {
	held, err := look(pid)
	if err != nil {
		return s, err
	}
	var answer []byte
	for _, query := range []string{"gc=1", "gc=1", "gc=1&debug=1"} { // what is pooled goes with the second
		var status int
		profile := answer
		status, answer, err = c.call(ctx, http.MethodGet, "/debug/pprof/heap?"+query, nil)
		if err != nil || status != http.StatusOK {
			return s, fmt.Errorf("GET /debug/pprof/heap: status %d, %w: %.100q", status, err, answer)
		}
		if dir := os.Getenv("INNERD_REPORT"); dir != "" && query != "gc=1" {
			if err := keepProfile(filepath.Join(dir, "heap"), profile); err != nil {
				return s, err
			}
		}
	}
	if s, err = c.sample(ctx, pid); err != nil {
		return s, err
	}
	s.memory = held.memory
	s.runtime, err = runtimeOf(string(answer))
	return s, err
}

// keepProfile writes a profile under its time of day.
func keepProfile(dir string, profile []byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, time.Now().UTC().Format("150405")+".pb.gz"), profile, 0o600)
}

// most is the highest of what f gives.
func (w *series) most(f func(sample) float64) (high float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.all {
		high = max(high, f(s))
	}
	return high
}

// slope is the rise of what f gives, an hour, over the second half, by least
// squares, with its standard error.
func (w *series) slope(f func(sample) float64) (perHour, err float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var x, y []float64
	for _, s := range w.all[len(w.all)/2:] {
		x, y = append(x, s.at.Sub(w.all[0].at).Hours()), append(y, f(s))
	}
	return leastSquares(x, y)
}

// leastSquares is the slope of the line through the points, with its standard
// error.
func leastSquares(x, y []float64) (slope, err float64) {
	n := float64(len(x))
	if n < 3 {
		return math.NaN(), math.NaN()
	}
	var mx, my, sxx, sxy float64
	for i := range x {
		mx, my = mx+x[i]/n, my+y[i]/n
	}
	for i := range x {
		sxx += (x[i] - mx) * (x[i] - mx)
		sxy += (x[i] - mx) * (y[i] - my)
	}
	slope = sxy / sxx
	var rest float64
	for i := range x {
		d := y[i] - my - slope*(x[i]-mx)
		rest += d * d
	}
	return slope, math.Sqrt(rest / (n - 2) / sxx)
}

func TestLeastSquares(t *testing.T) {
	var x, y []float64
	for i := range 100 {
		x, y = append(x, float64(i)), append(y, 7+3*float64(i)+float64(i%2)*2-1)
	}
	if slope, err := leastSquares(x, y); math.Abs(slope-3) > 3*err || err > 0.01 {
		t.Errorf("%v ± %v", slope, err)
	}
}
