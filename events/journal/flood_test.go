package journal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"innerd/events"
	"innerd/events/journal"
)

// TestFlood has some emitters, readers of every kind and the sync of each
// second at work together. Every reader gets the bytes that the files hold.
func TestFlood(t *testing.T) {
	const emitters, each, readers = 3, 4000, 8
	dir := t.TempDir()
	s := open(t, dir, &journal.Options{MemoryBytes: 512 << 10, SegmentBytes: 256 << 10, UnwrittenBytes: 32 << 10, Logger: quiet})
	l := create(t, s, run)
	other := create(t, s, "run-other") // memory is shared
	sums := make([]uint64, readers)
	var wg sync.WaitGroup
	for i := range readers {
		c, err := l.Follow(0, nil)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() { sums[i] = digest(t, c, i) })
	}
	stuck, err := l.Follow(0, nil) // and one that reads once, and never again
	if err != nil {
		t.Fatal(err)
	}
	defer stuck.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var clock sync.WaitGroup
	clock.Go(func() {
		for ctx.Err() == nil {
			s.Tick()
			_ = s.Stats()
		}
	})
	var work sync.WaitGroup
	for e := range emitters {
		work.Go(func() {
			for i := range each {
				if _, err := l.Append(events.MessageDelta{Delta: fmt.Sprint(e, " ", i, " é"), MessageID: "m"}); err != nil {
					t.Error(err)
					return
				}
				if i%7 == 0 {
					_, _ = other.Append(events.ToolUpdate{ID: "1", Output: fmt.Sprint(i)})
				}
			}
		})
	}
	if _, err := stuck.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	work.Wait()
	end(t, l)
	end(t, other)
	wg.Wait()
	cancel()
	clock.Wait()
	want := fileDigest(t, dir)
	for i, sum := range sums {
		if sum != want {
			t.Errorf("reader %d has other bytes than the files", i)
		}
	}
	if st := s.Stats(); st.Damaged != 0 || l.Last() != emitters*each+2 {
		t.Fatalf("%+v, last %d", st, l.Last())
	}
	stuck.Close()
	if st := s.Stats(); st.MemoryBytes != 0 || st.Readers != 0 {
		t.Fatalf("ended runs hold memory: %+v", st)
	}
}

// digest reads to the end, at a pace of its own.
func digest(t *testing.T, c *journal.Cursor, pace int) uint64 {
	defer c.Close()
	h := fnv.New64a()
	for {
		b, err := c.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return h.Sum64()
		}
		if err != nil {
			t.Error(err)
			return 0
		}
		for line := range b.Lines() {
			_, _ = h.Write(line)
			_, _ = h.Write([]byte{'\n'})
			for range pace * 20 { // slower ones fall behind the memory
				_, _ = h.Write(nil)
			}
		}
	}
}

func fileDigest(t *testing.T, dir string) uint64 {
	t.Helper()
	segs, err := filepath.Glob(filepath.Join(dir, "runs", run, "*.jsonl"))
	if err != nil || len(segs) < 3 {
		t.Fatalf("%d segments, %v", len(segs), err)
	}
	h := fnv.New64a()
	for _, name := range segs {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = h.Write(data)
		if !bytes.HasSuffix(data, []byte("}\n")) {
			t.Fatal("no whole line at the end of", name)
		}
	}
	return h.Sum64()
}

// TestRun is the background: it syncs and retains until its context ends.
func TestRun(t *testing.T) {
	s := open(t, t.TempDir(), &journal.Options{Retention: time.Millisecond})
	end(t, create(t, s, run))
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error)
	go func() { over <- s.Run(ctx) }()
	for {
		if _, err := s.Get(run); errors.Is(err, journal.ErrNotFound) {
			break
		}
		s.Retain()
	}
	cancel()
	if err := <-over; err != nil {
		t.Fatal(err)
	}
}

// TestCloseWakesReaders: nobody waits for a store that is closed.
func TestCloseWakesReaders(t *testing.T) {
	s := open(t, t.TempDir(), nil)
	l := create(t, s, run)
	c, err := l.Follow(0, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	over := make(chan error)
	go func() {
		_, err := c.Next(t.Context())
		over <- err
	}()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-over; !errors.Is(err, journal.ErrClosed) {
		t.Fatal(err)
	}
	if _, err := l.Append(events.Steered{}); !errors.Is(err, journal.ErrClosed) {
		t.Fatal(err)
	}
	if _, err := s.Create(journal.RunMeta{ID: "run-0002"}); !errors.Is(err, journal.ErrClosed) {
		t.Fatal(err)
	}
}
