package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"innerd/events"
	"innerd/host"
)

const libraryRate = 200_000 // events a second that the library must give from one stream

// library measures how many events a second the Go library gives its host from
// one stream of a run: parsed, in order, each once. The limit is one reader
// that only finds the frames and sums their bytes.
func (b *bench) library(ctx context.Context) error {
	deltas := int64(1_000_000)
	if b.quick {
		deltas /= 2
	}
	in, err := b.innerd(ctx)
	if err != nil {
		return err
	}
	defer in.stop()
	c, err := host.New(in.url, nil)
	if err != nil {
		return err
	}
	defer c.CloseIdleConnections()
	rounds := b.rounds(7)
	var ours, limit []float64
	for i := range rounds {
		rate, err := streamed(ctx, c, deltas)
		if err != nil {
			return err
		}
		f, err := in.flood(ctx, 1, deltas, 0)
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "  round %d: library %s, a reader that counts %s\n", i+1, millions(rate), millions(f.rate))
		if i > 0 || rounds == 1 { // the first warms up
			ours, limit = append(ours, rate), append(limit, f.rate)
		}
	}
	rate, most := median(ours), median(limit)
	b.table.add(row{
		what: "host library, one stream; events", measured: millions(rate), limit: millions(most) + " counted, not parsed",
		ratio: fmt.Sprintf("%.2f", rate/most), goal: "≥ 0.2 M/s", ok: rate >= libraryRate,
	})
	return nil
}

// streamed runs a flood by the library and gives the rate from its first delta
// to its last message. The run is deleted, as a flood's is.
func streamed(ctx context.Context, c *host.Client, deltas int64) (float64, error) {
	req := host.Prompt("", "go")
	req.Metadata.Backend = "simulate"
	req.Metadata.AgentOptions = fmt.Appendf(nil, `{"script":[{"flood":{"deltas":%d,"bytes":40}}]}`, deltas)
	var last, count, said int64
	var began, ended time.Time
	task := ""
	for ev, err := range c.Stream(ctx, req) {
		if err != nil {
			return 0, err
		}
		if ev.ID == 0 {
			continue // a heartbeat
		}
		if ev.ID != last+1 {
			return 0, fmt.Errorf("event %d after %d", ev.ID, last)
		}
		last = ev.ID
		switch d := ev.Data.(type) {
		case events.TaskID:
			task = d.TaskID
		case events.MessageDelta:
			if said++; said == 1 {
				began = time.Now()
			} else {
				count++
			}
		case events.Message:
			count++
			ended = time.Now()
		case events.Error:
			return 0, fmt.Errorf("the run failed: %s", d.Message)
		}
	}
	if said != deltas {
		return 0, fmt.Errorf("%d deltas of %d came", said, deltas)
	}
	return float64(count) / ended.Sub(began).Seconds(), c.Delete(ctx, task)
}
