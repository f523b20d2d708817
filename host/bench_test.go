package host_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"innerd/events"
	"innerd/host"
)

// One stream of 40-byte deltas over loopback, as fast as it goes, server and
// client in one process.
func BenchmarkStream(b *testing.B) {
	const n = 200_000
	var body []byte
	add := func(id int64, d events.Data) {
		body = fmt.Appendf(body, "id: %d\ndata: ", id)
		body, _ = events.AppendLine(body, id, 1700000000000, d) // it has no raw JSON
		body = append(body, "\n\n"...)
	}
	add(1, started)
	for i := range int64(n) {
		add(i+2, events.MessageDelta{Delta: "0123456789abcdef0123456789abcdef01234567", MessageID: "01K0000000000000000000000"})
	}
	add(n+2, events.End{State: events.Completed})
	body = append(body, "data: [DONE]\n\n"...)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(body)
	}))
	defer srv.Close()
	c, err := host.New(srv.URL, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer c.CloseIdleConnections()
	b.ResetTimer()
	total := 0
	for b.Loop() {
		for ev, err := range c.Stream(b.Context(), prompt()) {
			if err != nil {
				b.Fatal(err)
			}
			if ev.ID != 0 {
				total++
			}
		}
	}
	b.ReportMetric(float64(total)/b.Elapsed().Seconds(), "events/s")
}
