//go:build linux

package observe_test

import (
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

func jsonOf(s string) json.RawMessage { return json.RawMessage(s) }

// collector takes traces over OTLP/HTTP.
type collector struct {
	*httptest.Server
	mu      sync.Mutex
	spans   []*tracepb.Span
	service string
	headers []http.Header
}

func newCollector(t *testing.T) *collector {
	c := &collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		var req coltrace.ExportTraceServiceRequest
		if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(raw, &req) != nil {
			http.Error(w, "no traces", http.StatusBadRequest)
			return
		}
		c.take(&req, r.Header)
		out, _ := proto.Marshal(&coltrace.ExportTraceServiceResponse{}) // of nothing
		w.Header().Set("Content-Type", "application/x-protobuf")
		_, _ = w.Write(out) // the exporter may be gone
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *collector) take(req *coltrace.ExportTraceServiceRequest, h http.Header) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.headers = append(c.headers, h.Clone())
	for _, r := range req.ResourceSpans {
		for _, a := range r.Resource.Attributes {
			if a.Key == "service.name" {
				c.service = a.Value.GetStringValue()
			}
		}
		for _, s := range r.ScopeSpans {
			c.spans = append(c.spans, s.Spans...)
		}
	}
}

// of gives the spans of a trace, by name.
func (c *collector) of(traceID string) map[string]*tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]*tracepb.Span{}
	for _, s := range c.spans {
		if hex.EncodeToString(s.TraceId) == traceID {
			out[s.Name] = s
		}
	}
	return out
}

func (c *collector) texts() (out []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		out = append(out, s.String())
	}
	return out
}

// from is the service that the spans are of.
func (c *collector) from() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.service
}

// heads are the headers of all that came.
func (c *collector) heads() []http.Header {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.headers)
}

func (c *collector) sent(name, value string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.headers) > 0 && !slices.ContainsFunc(c.headers, func(h http.Header) bool { return h.Get(name) != value })
}

func names(spans map[string]*tracepb.Span) (out []string) {
	for name := range spans {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}
