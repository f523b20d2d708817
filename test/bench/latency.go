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
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

const latencyRate = 2000 // deltas a second

// lags are times from a stamp in a delta to its arrival.
type lags []time.Duration

// latency measures from emit to receive, beside the raw log: the same log
// behind a plain handler; beside the log in one process; and beside a handler
// that writes and flushes each frame, without a log.
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
		func() (lags, error) { return raw.rawLags(ctx, "log", n, b.dir) },
		func() (lags, error) { return b.logLags(ctx, n) },
		func() (lags, error) { return raw.rawLags(ctx, "paced", n, b.dir) },
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
			fmt.Fprintf(os.Stderr, "  round %d, %s: median %s, p99 %s\n", i+1, []string{"innerd", "log, plain handler", "log, one process", "no log"}[k], ms(a), ms(z))
			if i > 0 {
				p50[k], p99[k] = append(p50[k], a), append(p99[k], z)
			}
		}
	}
	b.latencyRows(p50, p99)
	return nil
}

func (b *bench) latencyRows(p50, p99 [][]time.Duration) {
	const ours, log, alone, raw = 0, 1, 2, 3
	m, z := median(p50[ours]), median(p99[ours])
	ratio := float64(z) / float64(median(p99[log]))
	both := func(k int) string { return ms(median(p50[k])) + "; " + ms(median(p99[k])) }
	b.table.add(row{
		what: "emit to receive at 2,000/s, one reader, median", measured: ms(m), limit: ms(median(p50[log])) + " raw log",
		ratio: fmt.Sprintf("%.2f", float64(m)/float64(median(p50[log]))), goal: "≤ 0.1 ms", ok: m <= 100*time.Microsecond,
	})
	b.table.add(row{
		what: "the same, p99", measured: ms(z), limit: ms(median(p99[log])) + " raw log",
		ratio: fmt.Sprintf("%.2f", ratio), goal: "≤ 1.5", ok: ratio <= 1.5,
	})
	b.table.add(row{what: "for orientation: a handler that flushes each frame, no log; median, p99", limit: both(raw), free: true})
	b.table.add(row{what: "for orientation: the log and its reader in one process, no HTTP; median, p99", limit: both(alone), free: true})
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

func (p *process) rawLags(ctx context.Context, path string, n int64, dir string) (lags, error) {
	dir, err := os.MkdirTemp(dir, "log-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	query := url.Values{"n": {fmt.Sprint(n)}, "rate": {fmt.Sprint(latencyRate)}, "dir": {filepath.Join(dir, "state")}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/"+path+"?"+query.Encode(), nil)
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
