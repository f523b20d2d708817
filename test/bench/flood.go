package main

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// flood measures how many frames a second reach all readers of one run.
func flood(n int, deltas int64, goal float64) func(*bench, context.Context) error {
	return func(b *bench, ctx context.Context) error {
		if b.quick {
			deltas /= 2
		}
		ours, limit, err := b.floods(ctx, n, deltas, b.rounds(7))
		if err != nil {
			return err
		}
		ratio := ours / limit
		b.table.add(row{
			what:     fmt.Sprintf("flood, readers: %d; deliveries", n),
			measured: millions(ours), limit: millions(limit), ratio: fmt.Sprintf("%.2f", ratio),
			goal: fmt.Sprintf("≥ %.1f", goal), ok: ratio >= goal,
		})
		return nil
	}
}

// floods plays rounds of innerd and the raw server in turn, and gives the
// median rates.
func (b *bench) floods(ctx context.Context, n int, deltas int64, rounds int) (ours, limit float64, err error) {
	in, err := b.innerd(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer in.stop()
	raw, err := b.raw(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer raw.stop()
	var a, l []float64
	for i := range rounds {
		f, err := in.flood(ctx, n, deltas, 0)
		if err != nil {
			return 0, 0, err
		}
		r, used, err := raw.rawFlood(ctx, n, f, b.dir)
		if err != nil {
			return 0, 0, err
		}
		fmt.Fprintf(os.Stderr, "  round %d: innerd %s, raw %s; server CPU for a million deliveries: %v, %v\n", i+1, millions(f.rate), millions(r),
			f.cpu, perMillion(used, f.count*int64(n)))
		if i > 0 || rounds == 1 { // the first warms up
			a, l = append(a, f.rate), append(l, r)
		}
	}
	return median(a), median(l), nil
}

// flooded is what was delivered in a round.
type flooded struct {
	*stream
	count int64 // frames of the flood
	rate  float64
	cpu   time.Duration // of the server, for a million deliveries
}

// flood lets n readers see a flood, beside some that never read, and checks
// that each saw what the journal holds.
func (p *process) flood(ctx context.Context, n int, deltas int64, stuck int) (*flooded, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	g, err := p.gated(ctx, map[string]any{"flood": map[string]any{"deltas": deltas, "bytes": 40}})
	if err != nil {
		return nil, err
	}
	release, err := standStill(ctx, g.events(), stuck)
	if err != nil {
		return nil, err
	}
	defer release()
	before := p.cpu()
	rs := attach(ctx, n, g.events(), gateMark)
	if err := rs.release(func() error { return g.open(ctx) }); err != nil {
		return nil, err
	}
	used := p.cpu() - before
	st, err := g.written()
	if err != nil {
		return nil, err
	}
	r := rs.list[0]
	if want := crc32.Checksum(st.frames, castagnoli); r.crc != want || r.bytes != int64(len(st.frames)) || r.frames != st.count+1 {
		return nil, fmt.Errorf("readers saw %d frames, %d bytes with crc %08x, the journal has %d, %d with %08x", r.frames, r.bytes, r.crc, st.count+1, len(st.frames), want)
	}
	if err := g.forget(ctx); err != nil {
		return nil, err
	}
	f := &flooded{stream: st, count: st.count - g.head}
	if f.count < deltas {
		return nil, fmt.Errorf("%d frames for %d deltas", f.count, deltas)
	}
	f.rate, f.cpu = f.rateOf(rs), perMillion(used, f.count*int64(n))
	return f, nil
}

func perMillion(used time.Duration, deliveries int64) time.Duration {
	return (used * 1e6 / time.Duration(deliveries)).Round(time.Millisecond)
}

// rateOf is the deliveries a second up to the last message.
func (f *flooded) rateOf(rs *readers) float64 {
	return float64(f.count) * float64(len(rs.list)) / rs.took(int64(f.tail)).Seconds()
}

// rawFlood lets n readers see the same bytes from the raw server, and gives
// the rate and the server's processor time.
func (p *process) rawFlood(ctx context.Context, n int, f *flooded, dir string) (rate float64, used time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	file := filepath.Join(dir, "frames")
	if err := os.WriteFile(file, f.frames, 0o600); err != nil {
		return 0, 0, err
	}
	if err := call(ctx, http.DefaultClient, p.url+"/load?file="+url.QueryEscape(file), nil); err != nil {
		return 0, 0, err
	}
	before := p.cpu()
	rs := attach(ctx, n, p.url+"/flood?head="+strconv.Itoa(f.head), gateMark)
	if err := rs.release(func() error { return call(ctx, http.DefaultClient, p.url+"/go", nil) }); err != nil {
		return 0, 0, err
	}
	used = p.cpu() - before
	if r := rs.list[0]; r.crc != crc32.Checksum(f.frames, castagnoli) {
		return 0, 0, errors.New("the raw server's readers saw something else")
	}
	return f.rateOf(rs), used, nil
}

// standStill opens streams and never reads them.
func standStill(ctx context.Context, url string, n int) (release func(), err error) {
	client := &http.Client{Transport: &http.Transport{}}
	var open []*http.Response
	release = func() {
		for _, r := range open {
			_ = r.Body.Close()
		}
		client.CloseIdleConnections()
	}
	for range n {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return release, err
		}
		res, err := client.Do(req)
		if err != nil {
			return release, err
		}
		open = append(open, res)
	}
	return release, nil
}

// stuck measures what a reader that never reads costs the others.
func (b *bench) stuck(ctx context.Context) error {
	const readers, deltas = 16, 300_000
	in, err := b.innerd(ctx)
	if err != nil {
		return err
	}
	defer in.stop()
	var without, with []float64
	for i := range b.rounds(9) {
		for _, stuck := range []int{i % 2, (i + 1) % 2} { // in turn the one and the other first
			f, err := in.flood(ctx, readers, deltas, stuck)
			if err != nil {
				return err
			}
			fmt.Fprintf(os.Stderr, "  %d stuck: %s\n", stuck, millions(f.rate))
			if i == 0 {
				continue // warms up
			}
			if stuck > 0 {
				with = append(with, f.rate)
			} else {
				without = append(without, f.rate)
			}
		}
	}
	ratio := median(with) / median(without)
	b.table.add(row{
		what:     "flood, 16 readers beside one that never reads",
		measured: millions(median(with)), limit: millions(median(without)) + " without it",
		ratio: fmt.Sprintf("%.3f", ratio), goal: "> 0.95", ok: ratio > 0.95,
	})
	return nil
}
