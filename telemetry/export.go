package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

const scope = "innerd"

// flushTime is how long the spans that are left may take at the end.
const flushTime = 3 * time.Second

// Tracer makes spans and sends them to a collector. A nil one makes none.
type Tracer struct {
	tracer   trace.Tracer
	provider *sdk.TracerProvider
}

// FromEnv makes the tracer that the standard variables OTEL_* ask for. Without
// a collector named in them there is none, and nothing is started. getenv also
// knows the variables that were taken out of the environment because they are
// secret. Close it.
func FromEnv(ctx context.Context, getenv func(string) string, version string, log *slog.Logger) (*Tracer, error) {
	if !wanted(getenv, log) {
		return nil, nil
	}
	headers, err := headersOf(getenv)
	if err != nil {
		return nil, err
	}
	exporter, err := exporterOf(ctx, getenv, headers)
	if err != nil {
		return nil, fmt.Errorf("telemetry: OTEL_EXPORTER_OTLP_*: %w", err)
	}
	otel.SetLogger(logr.Discard()) // it would write what it is set up with
	// What the making of the provider says is of settings that it does not take.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { unused(log, err) }))
	attrs := []attribute.KeyValue{attribute.String("service.name", "innerd"), attribute.String("service.version", version)}
	res, err := resource.Merge(resource.NewSchemaless(attrs...), resource.Environment())
	if err != nil {
		return nil, fmt.Errorf("telemetry: OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	p := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(res))
	otel.SetErrorHandler(&complaints{log: log})
	return &Tracer{tracer: p.Tracer(scope, trace.WithInstrumentationVersion(version)), provider: p}, nil
}

// unused says of a setting that it is not used. By the specification of
// OpenTelemetry the program goes on as if it were not there.
func unused(log *slog.Logger, err error) {
	log.Warn("a variable OTEL_* cannot be used, and its default is: see docs/observability.md", "error", err)
}

// New makes a tracer that gives its spans to an exporter at once, for tests.
func New(e sdk.SpanExporter) *Tracer {
	p := sdk.NewTracerProvider(sdk.WithSyncer(e))
	return &Tracer{tracer: p.Tracer(scope), provider: p}
}

// Close sends what is left, until ctx ends or some seconds are over.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, flushTime)
	defer cancel()
	return t.provider.Shutdown(ctx)
}

func wanted(getenv func(string) string, log *slog.Logger) bool {
	if strings.EqualFold(strings.TrimSpace(getenv("OTEL_SDK_DISABLED")), "true") {
		return false
	}
	if signal(getenv, "ENDPOINT") == "" {
		return false
	}
	switch e := strings.TrimSpace(getenv("OTEL_TRACES_EXPORTER")); e {
	case "", "otlp":
		return true
	case "none":
	default:
		log.Warn("traces are not exported: OTEL_TRACES_EXPORTER must be otlp or none", "is", e)
	}
	return false
}

// signal is a setting of the traces' exporter: its own, or that of all.
func signal(getenv func(string) string, name string) string {
	if v := strings.TrimSpace(getenv("OTEL_EXPORTER_OTLP_TRACES_" + name)); v != "" {
		return v
	}
	return strings.TrimSpace(getenv("OTEL_EXPORTER_OTLP_" + name))
}

// exporterOf leaves all but the headers to the exporter, which reads the
// variables itself.
func exporterOf(ctx context.Context, getenv func(string) string, headers map[string]string) (sdk.SpanExporter, error) {
	switch p := signal(getenv, "PROTOCOL"); p {
	case "", "http/protobuf":
		if u, err := url.Parse(signal(getenv, "ENDPOINT")); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, errors.New("ENDPOINT must be a URL, such as http://collector:4318") // which may hold a secret
		}
		return otlptracehttp.New(ctx, otlptracehttp.WithHeaders(headers))
	case "grpc":
		return otlptracegrpc.New(ctx, otlptracegrpc.WithHeaders(headers))
	default:
		return nil, fmt.Errorf("PROTOCOL is %q: it must be http/protobuf or grpc", p)
	}
}

var errHeaders = errors.New("telemetry: OTEL_EXPORTER_OTLP_HEADERS must be name=value,name=value, percent-encoded")

// headersOf reads the headers, whose values are secrets: no error shows one.
func headersOf(getenv func(string) string) (map[string]string, error) {
	out := map[string]string{}
	for entry := range strings.SplitSeq(signal(getenv, "HEADERS"), ",") {
		if strings.TrimSpace(entry) == "" {
			continue
		}
		name, v, ok := strings.Cut(entry, "=")
		v, err := url.PathUnescape(strings.TrimSpace(v))
		if name = strings.TrimSpace(name); !ok || name == "" || err != nil {
			return nil, errHeaders
		}
		out[name] = v
	}
	return out, nil
}

// complaints says once a minute what the exporter could not do.
type complaints struct {
	log  *slog.Logger
	mu   sync.Mutex
	last time.Time
	n    int // since then
}

// Handle implements otel.ErrorHandler.
func (c *complaints) Handle(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n++; time.Since(c.last) < time.Minute {
		return
	}
	c.log.Warn("traces are not exported", "error", err, "times", c.n)
	c.last, c.n = time.Now(), 0
}
