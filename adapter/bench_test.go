package adapter_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"innerd/adapter"
	"innerd/events/journal"
)

// BenchmarkStream is one reader of 40-byte deltas, beside a handler that
// writes the same frames, ready-made, in large pieces.
func BenchmarkStream(b *testing.B) {
	store, err := journal.Open(b.TempDir(), &journal.Options{Logger: slog.New(slog.DiscardHandler), MemoryBytes: 256 << 20})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = store.Close() })
	f := &fake{store: store, started: make(chan *fakeRun, 16), runs: map[string]*fakeRun{}}
	a, err := adapter.New(adapter.Options{Runs: f, Open: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	srv := httptest.NewServer(a.Handler())
	b.Cleanup(srv.Close)
	get := func(b *testing.B, method, url, body string) *http.Response {
		req, _ := http.NewRequestWithContext(b.Context(), method, url, strings.NewReader(body))
		res, err := srv.Client().Do(req)
		if err != nil || res.StatusCode != 200 {
			b.Fatal(res, err)
		}
		return res
	}
	report := func(b *testing.B, n int64, events int) {
		b.SetBytes(n / int64(b.N))
		b.ReportMetric(float64(events)/b.Elapsed().Seconds()/1e6, "Mevents/s")
	}
	d := delta(strings.Repeat("x", 40))
	const count = 500_000

	for _, meta := range []string{`{}`, `{"events":"all"}`} {
		b.Run("live"+meta, func(b *testing.B) {
			var n int64
			for b.Loop() {
				res := get(b, "POST", srv.URL+"/message:stream", `{"metadata":`+meta+`}`)
				run := <-f.started
				go func() {
					for range count {
						run.say(b, d)
					}
					run.end(b)
				}()
				m, err := io.Copy(io.Discard, res.Body)
				if err != nil {
					b.Fatal(err)
				}
				n += m
			}
			report(b, n, count*b.N)
		})
	}

	res := get(b, "POST", srv.URL+"/message:stream", `{"metadata":{"task_id":"replayed"}}`)
	_ = res.Body.Close()
	run := <-f.started
	for range count {
		run.say(b, d)
	}
	b.Run("replay", func(b *testing.B) {
		var n int64
		for b.Loop() {
			res := get(b, "GET", fmt.Sprintf("%s/tasks/%s/events", srv.URL, run.ID()), "")
			m, err := io.CopyN(io.Discard, res.Body, 40<<20)
			if err != nil {
				b.Fatal(err)
			}
			_ = res.Body.Close()
			n += m
		}
		report(b, n, int(n)/150)
	})
	run.end(b)

	frames := []byte(strings.Repeat("id: 123456\ndata: {\"id\":123456,\"ts\":1764290000000,\"type\":\"assistant.message_delta\",\"data\":{\"delta\":\""+strings.Repeat("x", 40)+"\",\"message_id\":\"m1\"}}\n\n", 1700))
	raw := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range count / 1700 {
			_, _ = w.Write(frames)
			w.(http.Flusher).Flush()
		}
	}))
	defer raw.Close()
	b.Run("raw", func(b *testing.B) {
		var n int64
		for b.Loop() {
			res := get(b, "GET", raw.URL, "")
			m, err := io.Copy(io.Discard, res.Body)
			if err != nil {
				b.Fatal(err)
			}
			n += m
		}
		report(b, n, count/1700*1700*b.N)
	})
}
