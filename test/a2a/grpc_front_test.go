package a2a_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"innerd/adapter"
	"innerd/adapter/a2a"
	"innerd/adapter/a2a/sdk"
	"innerd/test/a2a/rig"
)

// starting is a server that has no domain yet.
func starting(t *testing.T, o adapter.Options) *rig.Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &rig.Server{GRPC: l.Addr().String()}
	log := slog.New(slog.DiscardHandler)
	if s.A2A, err = a2a.New(a2a.Options{Owner: adapter.Owner, Spec: adapter.SpecOf, BaseURL: adapter.BaseURL, StartWait: time.Millisecond, Logger: log}); err != nil {
		t.Fatal(err)
	}
	o.Logger = log
	api, err := adapter.New(o)
	if err != nil {
		t.Fatal(err)
	}
	g := sdk.NewGRPC(s.A2A, sdk.GRPCOptions{Owner: adapter.Owner, BodyLimit: a2a.DefaultBodyLimit, Write: a2a.DefaultWrite, Logger: log})
	g.Serve(l, api.Beside(adapter.Mount{Prefix: sdk.GRPCPath, Handler: g, Refuse: sdk.RefuseGRPC}))
	t.Cleanup(func() { _ = g.Close() })
	return s
}

// A server that starts can be asked again: that is no fault of it.
func TestGRPCWhileTheServerStarts(t *testing.T) {
	g := stub(t, starting(t, adapter.Options{Open: true}))
	_, err := g.GetTask(t.Context(), &pb.GetTaskRequest{Id: "x"})
	st := status.Convert(err)
	if st.Code() != codes.Unavailable || !strings.Contains(st.Message(), "still starting") {
		t.Fatal(err)
	}
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.Reason == "UNAVAILABLE" && info.Domain == "a2a-protocol.org" {
			return
		}
	}
	t.Errorf("no reason in %v", st.Details())
}

// Who has no key is answered before its message is read.
func TestGRPCWithoutAKey(t *testing.T) {
	s := starting(t, adapter.Options{Keys: []adapter.Key{adapter.NewKey("go", goKey)}})
	hold, fill := io.Pipe()
	defer fill.Close() //nolint:errcheck // ends the call
	if code := raw(t, s, "SendMessage", hold, -1).code(t); code != "16" {
		t.Errorf("status %s", code)
	}
}

// Calls count for the rate of their key as they do over HTTP.
func TestGRPCRate(t *testing.T) {
	g := stub(t, starting(t, adapter.Options{Keys: []adapter.Key{adapter.NewKey("go", goKey)}, RateLimit: 1}))
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+goKey)
	for range 100 { // two may come at once, and one a second
		if _, err := g.GetTask(ctx, &pb.GetTaskRequest{Id: "x"}); status.Code(err) == codes.ResourceExhausted {
			return
		}
	}
	t.Error("a hundred calls were let in")
}

// What is no call of gRPC is not served at its port.
func TestGRPCServesNothingElse(t *testing.T) {
	s := starting(t, adapter.Options{Open: true})
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	get, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.GRPC+"/health", nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := keepNone.Do(get); err == nil {
		_ = resp.Body.Close()
		t.Errorf("HTTP/1.1 is answered: %s", resp.Status)
	}
	get, _ = http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.GRPC+"/tasks", nil)
	resp, err := (&http.Transport{Protocols: h2c, DisableKeepAlives: true}).RoundTrip(get)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("HTTP/2 is answered: %s", resp.Status)
	}
}
