package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

// first measures from a POST to the first delta in its answer.
func (b *bench) first(ctx context.Context) error {
	in, err := b.innerd(ctx)
	if err != nil {
		return err
	}
	defer in.stop()
	raw, err := b.raw(ctx)
	if err != nil {
		return err
	}
	defer raw.stop()
	client := &http.Client{}
	body := request([]map[string]any{{"text": "Hello"}}, nil)
	var ours, limit, disk []time.Duration
	n := 300
	if b.quick {
		n = 100
	}
	for i := range n + n/5 {
		a, err := firstOf(ctx, client, in.url+"/message:stream", body)
		if err != nil {
			return err
		}
		l, err := firstOf(ctx, client, raw.url+"/first", body)
		if err != nil {
			return err
		}
		d, err := firstOf(ctx, client, raw.url+"/first?dir="+url.QueryEscape(filepath.Join(b.dir, fmt.Sprint("first-", i))), body)
		if err != nil {
			return err
		}
		if i >= n/5 { // what came before warms up
			ours, limit, disk = append(ours, a), append(limit, l), append(disk, d)
		}
	}
	fmt.Fprintf(os.Stderr, "  innerd median %s, p99 %s; raw %s, %s; with a folder and three files %s, %s\n", ms(median(ours)), ms(quantile(ours, 0.99)),
		ms(median(limit)), ms(quantile(limit, 0.99)), ms(median(disk)), ms(quantile(disk, 0.99)))
	b.table.add(row{
		what: "POST to first delta, median", measured: ms(median(ours)),
		limit: ms(median(limit)) + "; " + ms(median(disk)) + " with a folder and three files",
		ratio: fmt.Sprintf("%.2f", float64(median(ours))/float64(median(disk))), goal: "≤ 1 ms", ok: median(ours) <= time.Millisecond,
	})
	return nil
}

// firstOf posts and reads to the end; it gives the time from the POST to the first
// delta, without that in which the host encodes what it posts.
func firstOf(ctx context.Context, client *http.Client, url string, body any) (time.Duration, error) {
	js, err := json.Marshal(body)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	res, err := postJSON(ctx, client, url, js)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close() //nolint:errcheck // read to its end
	took, err := firstDeltaOf(res.Body, began)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, res.Body)
	return took, err
}

// firstDeltaOf reads until a delta of text has come.
func firstDeltaOf(body io.Reader, began time.Time) (time.Duration, error) {
	var seen []byte
	buf := make([]byte, 4096)
	for {
		n, err := body.Read(buf)
		now := time.Now()
		if seen = append(seen, buf[:n]...); bytes.Contains(seen, []byte(`"assistant.message_delta"`)) {
			return now.Sub(began), nil
		}
		if err != nil {
			return 0, fmt.Errorf("no delta: %w, but %.2000s", err, seen)
		}
	}
}

// start measures from the start of the process to its first healthy answer.
func (b *bench) start(ctx context.Context) error {
	spawn := func(f func(context.Context) (*process, error)) (time.Duration, error) {
		began := time.Now()
		p, err := f(ctx)
		if err != nil {
			return 0, err
		}
		defer p.stop()
		err = p.await(ctx, "/health")
		return time.Since(began), err
	}
	var ours, limit []time.Duration
	for range b.rounds(11) {
		a, err := spawn(func(ctx context.Context) (*process, error) { return b.spawnInnerd(ctx) })
		if err != nil {
			return err
		}
		l, err := spawn(b.spawnRaw)
		if err != nil {
			return err
		}
		ours, limit = append(ours, a), append(limit, l)
	}
	fmt.Fprintf(os.Stderr, "  innerd %v\n", ours)
	m := median(ours)
	b.table.add(row{
		what: "start to first healthy answer, median of cold starts", measured: ms(m), limit: ms(median(limit)),
		ratio: fmt.Sprintf("%.2f", float64(m)/float64(median(limit))), goal: "≤ 25 ms", ok: m <= 25*time.Millisecond,
	})
	return nil
}

// idle measures the memory of a server that does nothing.
func (b *bench) idle(ctx context.Context) error {
	in, err := b.innerd(ctx)
	if err != nil {
		return err
	}
	defer in.stop()
	rss, err := in.settled(ctx)
	if err != nil {
		return err
	}
	b.table.add(row{what: "idle memory (VmRSS)", measured: mb(rss), goal: "≤ 25 MB", ok: rss <= 25e6})
	return nil
}

// million measures the memory of a run of a million deltas with one reader.
func (b *bench) million(ctx context.Context) error {
	in, err := b.innerd(ctx)
	if err != nil {
		return err
	}
	defer in.stop()
	if _, err := in.flood(ctx, 1, 1_000_000, 0); err != nil {
		return err
	}
	peak, err := in.memory("VmHWM")
	if err != nil {
		return err
	}
	b.table.add(row{what: "1,000,000 deltas in one run, peak memory (VmHWM)", measured: mb(peak), goal: "≤ 96 MB", ok: peak <= 96e6})
	return nil
}

// followers measures what a thousand streams cost in which nothing happens.
func (b *bench) followers(ctx context.Context) error {
	const n = 1000
	in, err := b.innerd(ctx)
	if err != nil {
		return err
	}
	defer in.stop()
	g, err := in.gated(ctx)
	if err != nil {
		return err
	}
	before, err := in.settled(ctx)
	if err != nil {
		return err
	}
	rs := attach(ctx, n, g.events(), gateMark)
	rs.armed.Wait()
	after, err := in.settled(ctx)
	if err != nil {
		rs.cancel()
		return errors.Join(err, rs.wait())
	}
	if err := rs.release(func() error { return g.open(ctx) }); err != nil {
		return err
	}
	b.table.add(row{
		what: "1,000 idle followers, memory added (VmRSS)", measured: mb(after - before), limit: mb(before) + " before",
		goal: "≤ 30 MB", ok: after-before <= 30e6,
	})
	return nil
}
