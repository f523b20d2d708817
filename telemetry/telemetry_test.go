package telemetry_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"innerd/telemetry"
)

const (
	hosts = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	trace = "0af7651916cd43dd8448eb211c80319c"
)

func TestLinks(t *testing.T) {
	for in, want := range map[string]string{
		hosts: hosts, "": "", "no": "", "00-" + strings.Repeat("0", 32) + "-b7ad6b7169203331-01": "",
		hosts + "\r\nX-Evil: 1": "", "ff" + hosts[2:]: "", strings.Repeat("a", 1<<20): "",
	} {
		if got := telemetry.ParseLink(in, "").Parent; got != want {
			t.Errorf("%.80q: %q", in, got)
		}
	}
	if l := telemetry.ParseLink(hosts, "a=1,b=2"); l.State != "a=1,b=2" {
		t.Error(l)
	}
	for _, state := range []string{strings.Repeat("a=1,", 200) + "b=2", "\x00", "a"} {
		if l := telemetry.ParseLink(hosts, state); l.State != "" || l.Parent != hosts {
			t.Errorf("%.20q: %v", state, l)
		}
	}
}

func TestWithoutACollectorThePlaceIsHandedOn(t *testing.T) {
	var none *telemetry.Tracer
	if s := none.Start(telemetry.Link{}, telemetry.Asked, "run"); s != nil || s.Child(telemetry.Internal, "x").Link() != (telemetry.Link{}) {
		t.Error("there is a span of nothing")
	}
	s := none.Start(telemetry.ParseLink(hosts, ""), telemetry.Asked, "run")
	c := s.Child(telemetry.Asking, "tool")
	c.Set(telemetry.String("a", "b"))
	c.Mark("x")
	c.End("fault")
	if c.Link().Parent != hosts || c.LogAttr().Value.String() != trace {
		t.Errorf("%v %v", c.Link(), c.LogAttr())
	}
	if err := none.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestSpansHangTogether(t *testing.T) {
	e := tracetest.NewInMemoryExporter()
	tr := telemetry.New(e)
	run := tr.Start(telemetry.ParseLink(hosts, "a=1"), telemetry.Asked, "run")
	tool := run.Child(telemetry.Asking, "tool", telemetry.Int("n", 1), telemetry.Bool("b", true))
	at := tool.Link()
	tool.End("timeout")
	run.End("")
	got := e.GetSpans()
	if len(got) != 2 || got[0].Name != "tool" || got[1].Name != "run" {
		t.Fatal(got)
	}
	if got[0].Parent.SpanID() != got[1].SpanContext.SpanID() || got[1].Parent.SpanID().String() != hosts[36:52] {
		t.Error("the spans do not hang together")
	}
	if at.Parent[3:35] != trace || at.Parent[36:52] != got[0].SpanContext.SpanID().String() || at.State != "a=1" {
		t.Error("another place is handed on:", at)
	}
	if got[0].Status.Description != "timeout" || got[1].Status.Description != "" {
		t.Error(got[0].Status, got[1].Status)
	}
}

func TestFromEnv(t *testing.T) {
	const endpoint = "http://127.0.0.1:9"
	for _, c := range []struct {
		name  string
		env   map[string]string
		on    bool
		fails bool
	}{
		{name: "nothing"},
		{name: "a name alone", env: map[string]string{"OTEL_SERVICE_NAME": "x"}},
		{name: "a collector", env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}, on: true},
		{name: "one of traces", env: map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": endpoint}, on: true},
		{name: "grpc", env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, on: true},
		{name: "another protocol", env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, fails: true},
		{name: "an address that is none", env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "not a url"}, fails: true},
		{name: "an address of another kind", env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "ftp://s3cret@x"}, fails: true},
		{name: "switched off", env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_SDK_DISABLED": "true"}},
		{name: "no exporter", env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_TRACES_EXPORTER": "none"}},
		{name: "an exporter that is not here", env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_TRACES_EXPORTER": "zipkin"}},
		{name: "broken headers", env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_EXPORTER_OTLP_HEADERS": "authorization=s3cret%zz"}, fails: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log bytes.Buffer
			tr, err := telemetry.FromEnv(t.Context(), func(k string) string { return c.env[k] }, "v", slog.New(slog.NewTextHandler(&log, nil)))
			if (err != nil) != c.fails || (tr != nil) != c.on {
				t.Fatalf("%v, %v", tr, err)
			}
			if err != nil && strings.Contains(err.Error(), "s3cret") || strings.Contains(log.String(), "s3cret") {
				t.Error("a secret is shown:", err, log.String())
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := tr.Close(ctx); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestHistogram(t *testing.T) {
	var h telemetry.Histogram
	for _, d := range []time.Duration{0, 5 * time.Millisecond, 6 * time.Millisecond, time.Hour} {
		h.Observe(d)
	}
	got := h.Times()
	if got.Count != 4 || got.Buckets[0.005] != 2 || got.Buckets[0.01] != 3 || got.Buckets[900] != 3 {
		t.Error(got)
	}
	if got.Sum < 3600.010 || got.Sum > 3600.012 {
		t.Error(got.Sum)
	}
}
