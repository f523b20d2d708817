package adapter_test

import (
	"strings"
	"testing"
	"time"
)

// BenchmarkLargeRequest is the time from the first byte of a large request to
// the first event of its run, with a client on the same machine.
func BenchmarkLargeRequest(b *testing.B) {
	for name, body := range map[string]string{
		"one text":  `{"messages":[{"role":"user","content":"` + strings.Repeat("some words and \\n more ", 60<<20/24) + `"}],"metadata":{"task_id":"","backend":"simulate","agent_options":{"script":[{"text":"ok"}]}}}`,
		"one image": `{"messages":[{"role":"user","content":"look","images":[{"content":"` + strings.Repeat("aGVs", 60<<20/4) + `"}]}],"metadata":{"backend":"simulate","agent_options":{"script":[{"text":"ok"}]}}}`,
	} {
		b.Run(name, func(b *testing.B) {
			s := real(b)
			for range b.N {
				began := time.Now()
				r := s.stream(b, "POST", "/message:stream", body)
				r.want("session.task_id")
				b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms-to-task_id")
				r.finish()
			}
		})
	}
}
