//go:build linux

package observe_test

import (
	"context"
	"net"
	"net/http"
	"testing"

	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"innerd/test/server"
)

// overGRPC is a collector as gRPC calls it.
type overGRPC struct {
	coltrace.UnimplementedTraceServiceServer
	c *collector
}

func (o overGRPC) Export(ctx context.Context, req *coltrace.ExportTraceServiceRequest) (*coltrace.ExportTraceServiceResponse, error) {
	h := http.Header{}
	in, _ := metadata.FromIncomingContext(ctx)
	for _, v := range in.Get("authorization") {
		h.Set("Authorization", v)
	}
	o.c.take(req, h)
	return &coltrace.ExportTraceServiceResponse{}, nil
}

// TestACollectorOverGRPC: the other protocol that the variables can name.
func TestACollectorOverGRPC(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := newCollector(t)
	srv := grpc.NewServer()
	coltrace.RegisterTraceServiceServer(srv, overGRPC{c: c})
	go func() { _ = srv.Serve(l) }() // ends with Stop
	t.Cleanup(srv.Stop)
	s := traced(t, c, func(s *server.Server) {
		s.Env = append(s.Env, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://"+l.Addr().String())
	})
	s.Header = map[string]string{"traceparent": place(traceID)}
	s.Post(t, simulated("", `[{"text":"done"}]`, nil)).Completed()
	s.Stop()
	if c.of(traceID)["invoke_agent simulate"] == nil || !c.sent("Authorization", "Bearer "+secret) {
		t.Errorf("%v with %v", names(c.of(traceID)), c.heads())
	}
}
