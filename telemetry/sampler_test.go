package telemetry_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"innerd/telemetry"
)

// A sampler that nobody knows is said, and the default is used: traces are
// made, and nobody is told that they are not.
func TestSamplersThatAreNotKnown(t *testing.T) {
	for _, c := range []struct {
		name, arg string
		said      bool
		sampled   bool
	}{
		{"", "", false, true},
		{"always_off", "", false, false},
		{"traceidratio", "0", false, false},
		{"jaeger_remote", "endpoint=http://x", true, true},
		{"sometimes", "", true, true},
		{"parentbased_traceidratio", "many", true, true},
	} {
		t.Setenv("OTEL_TRACES_SAMPLER", c.name)
		t.Setenv("OTEL_TRACES_SAMPLER_ARG", c.arg)
		env := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
		var log bytes.Buffer
		tr, err := telemetry.FromEnv(t.Context(), func(k string) string { return env[k] }, "v", slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		s := tr.Start(telemetry.Link{}, telemetry.Asked, "run")
		if got := strings.HasSuffix(s.Link().Parent, "-01"); got != c.sampled {
			t.Errorf("%s %s: sampled %v", c.name, c.arg, got)
		}
		if said := strings.Contains(log.String(), "cannot be used"); said != c.said || strings.Contains(log.String(), "not exported") {
			t.Errorf("%s %s: the log says %q", c.name, c.arg, log.String())
		}
		_ = tr.Close(t.Context()) // an unfinished span is not sent
	}
}
