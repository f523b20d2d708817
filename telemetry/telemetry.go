// Package telemetry is what other rooms measure with: traces in the words of
// W3C and OpenTelemetry, and histograms. It knows nothing of runs, and it
// starts nothing: where no collector is set up there is no tracer, and all
// that is asked of a nil one costs a comparison.
package telemetry

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// maxState is the longest tracestate that is handed on, in bytes: what W3C
// asks for at least.
const maxState = 512

// Link is a place in a trace, as the headers traceparent and tracestate name
// it. The zero value is none.
type Link struct{ Parent, State string }

// ParseLink reads the two headers. What is not as W3C says is none.
func ParseLink(traceparent, tracestate string) Link {
	if traceparent == "" {
		return Link{}
	}
	if len(tracestate) > maxState {
		tracestate = ""
	}
	return linkOf(contextOf(Link{traceparent, tracestate}))
}

var w3c propagation.TraceContext

// contextOf is a context that stands at a place in a trace.
func contextOf(l Link) context.Context {
	return w3c.Extract(context.Background(), propagation.MapCarrier{"traceparent": l.Parent, "tracestate": l.State})
}

func linkOf(ctx context.Context) Link {
	m := propagation.MapCarrier{}
	w3c.Inject(ctx, m)
	return Link{m["traceparent"], m["tracestate"]}
}

// Attr is something that is known of a span: never what somebody said.
type Attr = attribute.KeyValue

// String is an Attr.
func String(key, v string) Attr { return attribute.String(key, v) }

// Int is an Attr.
func Int(key string, v int64) Attr { return attribute.Int64(key, v) }

// Bool is an Attr.
func Bool(key string, v bool) Attr { return attribute.Bool(key, v) }

// Kind says on which side of a call a span is.
type Kind int

// The kinds.
const (
	Internal Kind = iota // nobody else sees it
	Asked                // somebody asked us
	Asking               // we ask somebody
)

var kinds = map[Kind]trace.SpanKind{
	Internal: trace.SpanKindInternal, Asked: trace.SpanKindServer, Asking: trace.SpanKindClient,
}

// Span is a piece of work in a trace. A nil one is in none. Its methods may be
// called at the same time.
type Span struct {
	tracer trace.Tracer
	span   trace.Span // nil: nobody records here, and the place is handed on as it came
	ctx    context.Context
	link   Link
}

// Start begins a span below a place of somebody else's, or a new trace. Where
// nobody records, the place is kept, so that it can be handed on; without one
// there is no span.
func (t *Tracer) Start(at Link, kind Kind, name string, attrs ...Attr) *Span {
	switch {
	case t != nil:
		return begin(contextOf(at), t.tracer, kind, name, attrs)
	case at != Link{}:
		return &Span{link: at}
	}
	return nil
}

func begin(ctx context.Context, t trace.Tracer, kind Kind, name string, attrs []Attr, opts ...trace.SpanStartOption) *Span {
	ctx, span := t.Start(ctx, name, append(opts, trace.WithSpanKind(kinds[kind]), trace.WithAttributes(attrs...))...)
	return &Span{tracer: t, span: span, ctx: ctx, link: linkOf(ctx)}
}

// Child begins a span below s.
func (s *Span) Child(kind Kind, name string, attrs ...Attr) *Span {
	if s == nil || s.span == nil {
		return s
	}
	return begin(s.ctx, s.tracer, kind, name, attrs)
}

// Was makes a span below s of what began then and is over now.
func (s *Span) Was(since time.Time, kind Kind, name, fault string, attrs ...Attr) {
	if s != nil && s.span != nil {
		begin(s.ctx, s.tracer, kind, name, attrs, trace.WithTimestamp(since)).End(fault)
	}
}

// Link is where s stands.
func (s *Span) Link() Link {
	if s == nil {
		return Link{}
	}
	return s.link
}

// Set adds what has become known.
func (s *Span) Set(attrs ...Attr) {
	if s != nil && s.span != nil {
		s.span.SetAttributes(attrs...)
	}
}

// Mark notes a moment.
func (s *Span) Mark(name string, attrs ...Attr) {
	if s != nil && s.span != nil {
		s.span.AddEvent(name, trace.WithAttributes(attrs...))
	}
}

// End ends s. fault is the type of what went wrong, one of a known few and
// never the words of an error; "" is nothing.
func (s *Span) End(fault string) {
	if s == nil || s.span == nil {
		return
	}
	if fault != "" {
		s.span.SetAttributes(attribute.String("error.type", fault))
		s.span.SetStatus(codes.Error, fault)
	}
	s.span.End()
}

// LogAttr names the trace in a line of a log; without one it adds nothing.
func (s *Span) LogAttr() slog.Attr {
	if s == nil || len(s.link.Parent) < 35 {
		return slog.Attr{}
	}
	return slog.String("trace_id", s.link.Parent[3:35])
}
