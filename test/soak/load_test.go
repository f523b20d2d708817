//go:build linux

package soak_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"innerd/test/ledger"
	"innerd/test/report"
	"innerd/test/server"
)

// load is how much is asked of a server at once.
type load struct {
	runs, perSecond, readers int
	lasts                    time.Duration
}

// loadCommand is how the figures of docs/reliability.md are made.
const loadCommand = "make load"

// Two hundred runs at once, each watched by three readers: everybody gets
// everything. The long form also holds the server against one core and 250 MB.
func TestLoad(t *testing.T) {
	t.Parallel()
	l := load{runs: 40, perSecond: 50, readers: 3, lasts: 10 * time.Second}
	if long("load") {
		l = load{runs: 200, perSecond: 100, readers: 3, lasts: lasts(time.Minute)}
	}
	s := server.New(t, binary)
	s.Args = append(s.Args, "--max-warm", fmt.Sprint(2*l.runs))
	s.Start()
	f := l.play(t, s)
	if t.Failed() {
		return
	}
	t.Log("\n" + f.String())
	if !long("load") {
		return
	}
	report.Write(t, "load", loadCommand, f.String())
	if cores := f.cores(); cores >= 1 {
		t.Errorf("the server takes %.2f cores", cores)
	}
	if f.rss >= 250_000_000 {
		t.Errorf("the server holds %d MB", f.rss/1e6)
	}
}

// figures of a load.
type figures struct {
	load     load
	took     time.Duration // from the moment at which all ran to the first end
	cpu      time.Duration // of the server meanwhile
	memory                 // the most that was seen of each
	fds      int           // the most that was seen
	compared ledger.Result
}

func (f figures) cores() float64 { return f.cpu.Seconds() / f.took.Seconds() }

func (f figures) String() string {
	r := f.compared
	return strings.Join([]string{
		fmt.Sprintf("runs at once             %d, %d deltas a second each, for %.0f s", f.load.runs, f.load.perSecond, f.load.lasts.Seconds()),
		fmt.Sprintf("readers                  %d (%d of each run)", f.load.runs*f.load.readers, f.load.readers),
		fmt.Sprintf("events expected          %d", r.Expected),
		fmt.Sprintf("delivered                %d", r.Delivered),
		fmt.Sprintf("duplicated               %d", r.Duplicated),
		fmt.Sprintf("lost                     %d", r.Lost),
		fmt.Sprintf("of another content       %d", r.Changed),
		fmt.Sprintf("CPU of the server        %.2f cores (%.1f s in %.1f s)", f.cores(), f.cpu.Seconds(), f.took.Seconds()),
		fmt.Sprintf("memory, the most         %.0f MB (RSS)", float64(f.rss)/1e6),
		fmt.Sprintf("descriptors, the most    %d", f.fds),
	}, "\n")
}

// play makes the load and compares what came.
func (l load) play(t *testing.T, s *server.Server) figures {
	ctx, cancel := context.WithTimeout(t.Context(), l.lasts+10*time.Minute)
	defer cancel()
	c := newClient(t, s)
	var (
		wg      sync.WaitGroup
		readers = make([]*ledger.Ledger, l.runs)
		marks   = make([]*mark, 0, l.runs*l.readers)
		failed  atomic.Pointer[error]
	)
	for i := range l.runs {
		readers[i] = ledger.New()
		for j := range l.readers {
			m := &mark{begun: make(chan struct{}), ended: make(chan struct{})}
			marks = append(marks, m)
			r := readers[i].Reader(fmt.Sprintf("reader %d of run %d", j, i)).Whole()
			wg.Go(func() { // ends with the run, or the context
				defer m.over()
				if err := l.read(ctx, c, i, j, r, m); err != nil {
					err = fmt.Errorf("%s: %w", r.Name(), err)
					failed.CompareAndSwap(nil, &err)
					cancel()
				}
			})
		}
	}
	f := figures{load: l}
	f.watch(t, s.Pid(), marks)
	wg.Wait()
	if err := failed.Load(); err != nil {
		t.Fatal(*err)
	}
	for i, led := range readers {
		log, err := ledger.Disk(filepath.Join(s.State, "runs", runID(i)), false)
		if err != nil {
			t.Fatal(err)
		}
		if least := int64(l.perSecond)*int64(l.lasts.Seconds()) + 2; log.Last() < least {
			t.Errorf("run %d has %d events, not %d", i, log.Last(), least)
		}
		f.compared.Add(led.Compare(log))
	}
	if !f.compared.OK() {
		t.Errorf("%v: %.2000s", f.compared, strings.Join(f.compared.Faults, "\n"))
	}
	return f
}

func runID(i int) string { return fmt.Sprintf("run-of-load-%04d", i) }

// mark says when a reader begins to get something, and when it has all.
type mark struct {
	begun, ended chan struct{}
	once         sync.Once
}

// Read is that of the body that r reads through the mark.
type marked struct {
	r io.Reader
	m *mark
}

func (r marked) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if n > 0 {
		r.m.once.Do(func() { close(r.m.begun) })
	}
	return n, err
}

func (m *mark) over() {
	m.once.Do(func() { close(m.begun) })
	close(m.ended)
}

// read is one reader of a run; the first makes it.
func (l load) read(ctx context.Context, c *client, run, reader int, r *ledger.Reader, m *mark) error {
	var resp *http.Response
	var err error
	for first := true; first || resp.StatusCode == http.StatusNotFound; first = false {
		if reader == 0 {
			script := []object{{"flood": object{"deltas": l.perSecond * int(l.lasts.Seconds()), "per_second": l.perSecond}}}
			resp, err = c.open(ctx, http.MethodPost, "/message:stream", turn("", "go", script, object{"task_id": runID(run), "events": "all"}))
		} else {
			resp, err = c.open(ctx, http.MethodGet, "/tasks/"+runID(run)+"/events", nil) // 404 before the POST was taken
		}
		if err != nil {
			return err
		}
		if resp.StatusCode == http.StatusOK {
			break
		}
		_, _ = io.Copy(io.Discard, resp.Body) // so that the connection is used again
		_ = resp.Body.Close()
		if reader == 0 || resp.StatusCode != http.StatusNotFound {
			return errors.New(resp.Status)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond): // the other goroutine's POST is on its way
		}
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	return r.Read(marked{resp.Body, m})
}

// watch measures from the moment at which all readers get something to the
// first end.
func (f *figures) watch(t *testing.T, pid int, marks []*mark) {
	t.Helper()
	for _, m := range marks {
		<-m.begun
	}
	first := make(chan struct{})
	end := sync.OnceFunc(func() { close(first) })
	for _, m := range marks {
		go func() { <-m.ended; end() }() // ends with the reader
	}
	before, err := look(pid)
	if err != nil {
		t.Error(err)
		return
	}
	begin := time.Now()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for on := true; on; {
		select {
		case <-tick.C:
		case <-first:
			on = false
		}
		v, err := look(pid)
		if err != nil {
			t.Error(err)
			return
		}
		f.memory, f.fds = f.raised(v.memory), max(f.fds, v.fds)
		f.cpu, f.took = v.cpu-before.cpu, time.Since(begin)
	}
}
