package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"innerd/events"
	"innerd/events/journal"
)

const latencyRate = 2000 // deltas a second

// lags are times from a stamp in a delta to its arrival.
type lags []time.Duration

// latency measures from emit to receive, beside the log alone in one process
// and a handler that writes and flushes each frame.
func (b *bench) latency(ctx context.Context) error {
	n := int64(3 * latencyRate)
	if b.quick {
		n = latencyRate
	}
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
	ways := []func() (lags, error){
		func() (lags, error) { return in.lags(ctx, n) },
		func() (lags, error) { return b.logLags(ctx, n) },
		func() (lags, error) { return raw.rawLags(ctx, n) },
	}
	p50, p99 := make([][]time.Duration, len(ways)), make([][]time.Duration, len(ways))
	for i := range b.rounds(6) {
		for k, way := range ways {
			l, err := way()
			if err != nil {
				return err
			}
			if int64(len(l)) != n {
				return fmt.Errorf("%d deltas of %d arrived", len(l), n)
			}
			a, z := quantile(l, 0.5), quantile(l, 0.99)
			fmt.Fprintf(os.Stderr, "  round %d, %s: median %s, p99 %s\n", i+1, []string{"innerd", "log", "raw"}[k], ms(a), ms(z))
			if i > 0 {
				p50[k], p99[k] = append(p50[k], a), append(p99[k], z)
			}
		}
	}
	b.latencyRows(p50, p99)
	return nil
}

func (b *bench) latencyRows(p50, p99 [][]time.Duration) {
	const ours, log, raw = 0, 1, 2
	m, z := median(p50[ours]), median(p99[ours])
	ratio := float64(z) / float64(median(p99[log]))
	b.table.add(row{
		what: "emit to receive at 2,000/s, one reader, median", measured: ms(m), limit: ms(median(p50[log])) + " log alone",
		ratio: fmt.Sprintf("%.2f", float64(m)/float64(median(p50[log]))), goal: "≤ 0.1 ms", ok: m <= 100*time.Microsecond,
	})
	b.table.add(row{
		what: "the same, p99", measured: ms(z), limit: ms(median(p99[log])) + " log alone",
		ratio: fmt.Sprintf("%.2f", ratio), goal: "≤ 1.5", ok: ratio <= 1.5,
	})
	b.table.add(row{
		what: "the same of a handler that flushes each frame, median; p99", measured: ms(median(p50[raw])) + "; " + ms(median(p99[raw])), free: true,
	})
}

// lags plays a stamped flood and reads it as the stream of its POST.
func (p *process) lags(ctx context.Context, n int64) (lags, error) {
	script := []map[string]any{{"flood": map[string]any{"deltas": n, "bytes": 40, "per_second": latencyRate, "stamp": true}}}
	res, err := post(ctx, &http.Client{Transport: &http.Transport{DisableCompression: true}}, p.url+"/message:stream", request(script, nil))
	if err != nil {
		return nil, err
	}
	return readLags(res.Body)
}

func (p *process) rawLags(ctx context.Context, n int64) (lags, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/paced?n=%d&rate=%d", p.url, n, latencyRate), nil)
	if err != nil {
		return nil, err
	}
	res, err := (&http.Client{Transport: &http.Transport{DisableCompression: true}}).Do(req)
	if err != nil {
		return nil, err
	}
	return readLags(res.Body)
}

func readLags(body io.ReadCloser) (lags, error) {
	defer body.Close() //nolint:errcheck // read to its end
	var l lags
	var rest []byte
	buf := make([]byte, readBuffer)
	for {
		n, err := body.Read(buf)
		l, rest = takeLags(l, append(rest, buf[:n]...), time.Now().UnixNano())
		if errors.Is(err, io.EOF) {
			return l, nil
		}
		if err != nil {
			return l, err
		}
	}
}

const deltaMark = `"delta":"`

// takeLags reads the stamps of the whole frames in b, and gives the rest.
func takeLags(l lags, b []byte, now int64) (lags, []byte) {
	for {
		end := bytes.Index(b, []byte("\n\n"))
		if end < 0 {
			return l, b
		}
		if at := bytes.Index(b[:end], []byte(deltaMark)); at >= 0 {
			text, _, _ := bytes.Cut(b[at+len(deltaMark):end], []byte{' '})
			if stamp, err := strconv.ParseInt(string(text), 10, 64); err == nil {
				l = append(l, time.Duration(now-stamp))
			}
		}
		b = b[end+2:]
	}
}

// logLags has the log alone measured, in a process of its own.
func (b *bench) logLags(ctx context.Context, n int64) (lags, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(b.dir, "log-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	cmd := exec.CommandContext(ctx, self, "role", "rawlog", filepath.Join(dir, "state"), strconv.FormatInt(n, 10))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	var l lags
	return l, json.Unmarshal(out, &l)
}

// rawLog appends stamped deltas to a log and follows it in the same process.
func rawLog(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return errors.New("role rawlog DIR N")
	}
	n, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return err
	}
	store, err := journal.Open(args[0], nil)
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	go func() { _ = store.Run(running) }() // the sync each second; ends with stop
	log, err := store.Create(journal.RunMeta{ID: "bench-log", Created: time.Now()})
	if err != nil {
		return err
	}
	cursor, err := log.Follow(0, nil)
	if err != nil {
		return err
	}
	followed := make(chan lags)
	go func() { followed <- follow(ctx, cursor, n) }() // ends with the n-th event
	pace(latencyRate, n, func(int64) {
		if _, aerr := log.Append(events.MessageDelta{Delta: stamped(), MessageID: "m1"}); aerr != nil {
			err = aerr
		}
	})
	l := <-followed
	stop()
	return errors.Join(err, store.Close(), json.NewEncoder(os.Stdout).Encode(l))
}

func follow(ctx context.Context, c *journal.Cursor, n int64) (l lags) {
	defer c.Close()
	for int64(len(l)) < n {
		batch, err := c.Next(ctx)
		if err != nil {
			return l
		}
		now := time.Now().UnixNano()
		for _, frames := range batch.Frames() {
			l, _ = takeLags(l, frames, now)
		}
	}
	return l
}
