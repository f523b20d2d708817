package host

import "context"

type traceKey struct{}

type traceLink struct{ parent, state string }

// WithTrace gives the requests that are made with the context it returns a
// place in a trace, by the headers traceparent and tracestate of W3C: a run
// that is started with it, and all that its agent does, belong to that trace.
// An empty traceparent changes nothing.
//
// This package makes no spans of its own. A host that has OpenTelemetry takes
// the two texts from its propagator, and gives what Trace returns to it.
func WithTrace(ctx context.Context, traceparent, tracestate string) context.Context {
	if traceparent == "" {
		return ctx
	}
	return context.WithValue(ctx, traceKey{}, traceLink{traceparent, tracestate})
}

// Trace gives the place of a context in a trace. In a tool it is that of the
// call; "" where there is none.
func Trace(ctx context.Context) (traceparent, tracestate string) {
	l, _ := ctx.Value(traceKey{}).(traceLink)
	return l.parent, l.state
}
