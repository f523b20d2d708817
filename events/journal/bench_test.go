package journal_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"innerd/events"
	"innerd/events/journal"
)

var delta40 = "0123456789012345678901234567890123456789"

// BenchmarkAppend is one emitter and no reader; the run is on disk at the end.
func BenchmarkAppend(b *testing.B) {
	s := open(b, b.TempDir(), &journal.Options{Fsync: journal.FsyncNone})
	l := create(b, s, "run-0001")
	b.ReportAllocs()
	b.SetBytes(40)
	for b.Loop() {
		if _, err := l.Append(events.MessageDelta{Delta: delta40, MessageID: "msg_1"}); err != nil {
			b.Fatal(err)
		}
	}
	end(b, l)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.Sys)/(1<<20), "sys-MiB")
}

// BenchmarkFollow is one emitter and some readers, each of which takes every
// frame; op is one event that all have read.
func BenchmarkFollow(b *testing.B) {
	for _, readers := range []int{1, 16, 128} {
		b.Run(fmt.Sprint(readers), func(b *testing.B) {
			s := open(b, b.TempDir(), &journal.Options{Fsync: journal.FsyncNone})
			l := create(b, s, "run-0001")
			var wg sync.WaitGroup
			var frames, batches atomic.Int64
			for range readers {
				c, err := l.Follow(0, events.Type.Basic)
				if err != nil {
					b.Fatal(err)
				}
				wg.Go(func() {
					defer c.Close()
					for {
						batch, err := c.Next(context.Background())
						if errors.Is(err, io.EOF) {
							return
						}
						if err != nil {
							b.Error(err)
							return
						}
						frames.Add(int64(batch.Len()))
						batches.Add(1)
						for _, p := range batch.Frames() {
							_, _ = io.Discard.Write(p)
						}
					}
				})
			}
			for b.Loop() {
				if _, err := l.Append(events.MessageDelta{Delta: delta40, MessageID: "msg_1"}); err != nil {
					b.Fatal(err)
				}
			}
			end(b, l)
			wg.Wait()
			if want := l.Last() * int64(readers); frames.Load() != want {
				b.Fatalf("%d frames, want %d", frames.Load(), want)
			}
			b.ReportMetric(float64(frames.Load())/b.Elapsed().Seconds(), "deliveries/s")
			b.ReportMetric(float64(frames.Load())/float64(batches.Load()), "frames/batch")
		})
	}
}

// BenchmarkLatency is 2,000 events a second to one reader: from before Append
// to when Next has returned.
func BenchmarkLatency(b *testing.B) {
	s := open(b, b.TempDir(), nil)
	l := create(b, s, "run-0001")
	c, err := l.Follow(0, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	start := time.Now()
	sent := make(chan time.Duration, 1)
	var took []time.Duration
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			if _, err := c.Next(context.Background()); err != nil {
				return
			}
			took = append(took, time.Since(start)-<-sent)
		}
	}()
	for i := 0; i < b.N; i++ {
		time.Sleep(time.Until(start.Add(time.Duration(i) * 500 * time.Microsecond)))
		sent <- time.Since(start)
		say(b, l, delta40)
	}
	_ = s.Close()
	<-done
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e3, "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1e3, "p99-µs")
}

// BenchmarkRun is a whole short run: begin, three events, end.
func BenchmarkRun(b *testing.B) {
	for _, p := range []journal.Policy{journal.FsyncNone, journal.FsyncInterval} {
		b.Run(string(p), func(b *testing.B) {
			s := open(b, b.TempDir(), &journal.Options{Fsync: p})
			for i := 0; b.Loop(); i++ {
				l := create(b, s, fmt.Sprintf("run-%08d", i))
				say(b, l, "a")
				end(b, l)
			}
		})
	}
}
