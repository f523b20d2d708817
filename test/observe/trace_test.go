//go:build linux

package observe_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"innerd/adapter/api"
	"innerd/events"
	"innerd/host"
	"innerd/test/server"
)

const (
	traceID = "0af7651916cd43dd8448eb211c80319c"
	hostID  = "b7ad6b7169203331"
	secret  = "s3cret-of-the-collector"

	// A run that reasons, uses a tool of its agent's and one of the host's.
	working = `[{"reasoning":"hm"},{"tool":{"name":"Bash","input":{"command":"echo canary"},"output":"canary"}},{"call":{"tool":"lookup","arguments":{"q":"canary"}}},{"text":"done, canary"}]`
)

func place(trace string) string { return "00-" + trace + "-" + hostID + "-01" }

// traced is a server that sends its traces to a collector.
func traced(t *testing.T, c *collector, change ...func(*server.Server)) *server.Server {
	s := server.New(t, innerd)
	s.Env = append(s.Env, "OTEL_EXPORTER_OTLP_ENDPOINT="+c.URL, "OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20"+secret)
	for _, f := range change {
		f(s)
	}
	s.Start()
	return s
}

// TestOneTraceFromTheHostToItsToolAndBack: the host's place in a trace, sent
// with a run, is above the run's span, which is above those of the agent's
// start and of each call; and the host's tool is told the place of its call.
func TestOneTraceFromTheHostToItsToolAndBack(t *testing.T) {
	c := newCollector(t)
	s := traced(t, c)
	client, err := host.New(s.URL(), &host.Options{Key: s.Key()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	var mu sync.Mutex
	var told string
	tool := host.ToolDef{Name: "lookup", Schema: json.RawMessage(`{"type":"object"}`), Run: func(ctx context.Context, _ json.RawMessage) (host.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		told, _ = host.Trace(ctx)
		return host.Result{Text: "canary of the host"}, nil
	}}
	ctx := host.WithTrace(t.Context(), place(traceID), "vendor=1")
	req := host.Request{Tools: []host.ToolDef{tool}}
	req.Messages = []api.Message{{Role: api.RoleUser, Content: "canary"}}
	req.Metadata = api.Metadata{Backend: "simulate", AgentOptions: json.RawMessage(`{"script":` + working + `}`)}
	for ev, err := range client.Stream(ctx, req) {
		if err != nil {
			t.Fatal(err)
		}
		if d, ok := ev.Data.(events.End); ok && d.State != events.Completed {
			t.Fatal(d)
		}
	}
	environ(t, s)
	s.Stop() // sends what is left
	spans := c.of(traceID)
	run := spans["invoke_agent simulate"]
	if run == nil || hex.EncodeToString(run.ParentSpanId) != hostID || run.TraceState != "vendor=1" {
		t.Fatalf("no run below the host's span: %v; %v", run, names(spans))
	}
	for _, name := range []string{"start_agent simulate", "execute_tool Bash", "execute_tool lookup"} {
		if child := spans[name]; child == nil || string(child.ParentSpanId) != string(run.SpanId) || child.EndTimeUnixNano < child.StartTimeUnixNano {
			t.Errorf("%s is not below the run: %v", name, child)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if bridged := spans["execute_tool lookup"]; bridged != nil && told != "00-"+traceID+"-"+hex.EncodeToString(bridged.SpanId)+"-01" {
		t.Errorf("the tool was told %q, its call is %x", told, bridged.SpanId)
	}
	if c.from() != "innerd" || !c.sent("Authorization", "Bearer "+secret) {
		t.Error("of", c.from(), "with", c.heads())
	}
	for _, text := range append(c.texts(), s.Log()) {
		if strings.Contains(text, "canary") || strings.Contains(text, secret) {
			t.Error("content or a secret is shown:", text)
		}
	}
	if !strings.Contains(s.Log(), `"trace_id":"`+traceID+`"`) {
		t.Error("no line of the log names the trace:\n" + s.Log())
	}
}

// environ looks for the collector's secret where others of the server's user
// can read it.
func environ(t *testing.T, s *server.Server) {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", s.Pid()))
	if err != nil && !os.IsPermission(err) {
		t.Error(err)
	}
	if strings.Contains(string(raw), secret) {
		t.Error("the headers of the collector are in the environment")
	}
}

// TestTracesOverA2A: the same place comes with a message of the standard binding.
func TestTracesOverA2A(t *testing.T) {
	c := newCollector(t)
	s := traced(t, c, func(s *server.Server) { s.Env = append(s.Env, "OTEL_SERVICE_NAME=mine") })
	s.Header = map[string]string{"traceparent": place(traceID), "A2A-Version": "1.0"}
	status, answer := s.Call(http.MethodPost, "/a2a", map[string]any{
		"jsonrpc": "2.0", "id": 1, "method": "SendMessage",
		"params": map[string]any{"tenant": "simulate", "message": map[string]any{
			"messageId": "m1", "role": "ROLE_USER", "parts": []any{map[string]any{"text": "hello"}},
		}},
	})
	if status != http.StatusOK || !strings.Contains(string(answer), "TASK_STATE_COMPLETED") {
		t.Fatalf("%d %s", status, answer)
	}
	s.Stop()
	if run := c.of(traceID)["invoke_agent simulate"]; run == nil || hex.EncodeToString(run.ParentSpanId) != hostID {
		t.Errorf("no run below the caller's span: %v", names(c.of(traceID)))
	}
	if c.from() != "mine" {
		t.Error("of", c.from())
	}
}

// TestTracesOverGRPC: and in the metadata of a call over gRPC.
func TestTracesOverGRPC(t *testing.T) {
	c := newCollector(t)
	s := traced(t, c, func(s *server.Server) { s.Args = append(s.Args, "--grpc-listen", "127.0.0.1:0") })
	_, rest, _ := strings.Cut(s.Log(), `"A2A over gRPC","address":"`)
	address, _, _ := strings.Cut(rest, `"`)
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // the server ends
	ctx, cancel := context.WithTimeout(t.Context(), server.Soon)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+s.Key(), "a2a-version", "1.0", "traceparent", place(traceID))
	_, err = a2apb.NewA2AServiceClient(conn).SendMessage(ctx, &a2apb.SendMessageRequest{Tenant: "simulate", Message: &a2apb.Message{
		MessageId: "m1", Role: a2apb.Role_ROLE_USER, Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: "hello"}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	s.Stop()
	if run := c.of(traceID)["invoke_agent simulate"]; run == nil || hex.EncodeToString(run.ParentSpanId) != hostID {
		t.Errorf("no run below the caller's span: %v", names(c.of(traceID)))
	}
}

// TestFailuresAndHeadersThatAreNone: a failed run is an error in its trace,
// and a header that is no place in one begins a trace of the run's own.
func TestFailuresAndHeadersThatAreNone(t *testing.T) {
	c := newCollector(t)
	s := traced(t, c)
	s.Header = map[string]string{"traceparent": "00-" + strings.Repeat("0", 32) + "-" + hostID + "-01"}
	p := s.Post(t, simulated("", `[{"tool":{"name":"Bash","exit_code":1}},{"error":{"error_type":"overloaded","message":"canary"}}]`, nil)).Whole()
	if p.End().State != events.Failed {
		t.Fatal(p)
	}
	s.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := map[string]string{}
	for _, span := range c.spans {
		seen[span.Name] = span.Status.GetMessage()
		if span.Name == "invoke_agent simulate" && len(span.ParentSpanId) > 0 {
			t.Error("a parent out of nothing:", span)
		}
	}
	if seen["invoke_agent simulate"] != events.ErrOverloaded || seen["execute_tool Bash"] != events.OutcomeError {
		t.Error(seen)
	}
}

// TestWithoutACollector: the place is handed on as it came, nothing is sent,
// and a run without one has none.
func TestWithoutACollector(t *testing.T) {
	c := newCollector(t)
	s := traced(t, c, func(s *server.Server) { s.Env = append(s.Env, "OTEL_SDK_DISABLED=true") })
	script := `[{"call":{"tool":"lookup","arguments":{}}},{"text":"done"}]`
	tools := map[string]any{"native_tool_schemas": []any{map[string]any{"name": "lookup", "description": "d", "parameters": map[string]any{"type": "object"}}}}
	for _, given := range []string{place(traceID), ""} {
		s.Header = map[string]string{"traceparent": given}
		p := s.Post(t, simulated("", script, tools))
		call := server.Until[events.ToolRequest](p, 1)
		if call.Traceparent != given {
			t.Errorf("%q came back as %q", given, call.Traceparent)
		}
		if given == "" && slices.ContainsFunc(p.Lines(), func(l string) bool { return strings.Contains(l, "traceparent") }) {
			t.Error("a field of nothing")
		}
		s.Result(call.ToolCallID, map[string]any{"result": "x"})
		p.Completed()
	}
	s.Stop()
	if len(c.texts()) > 0 {
		t.Error("traces were sent:", c.texts())
	}
}

// TestACollectorThatIsGone: nothing of a run, nor the server's end, waits for it.
func TestACollectorThatIsGone(t *testing.T) {
	c := newCollector(t)
	s := traced(t, c)
	c.Close()
	s.Post(t, simulated("", `[{"text":"done"}]`, nil)).Completed()
	s.Stop()
	if strings.Contains(s.Log(), secret) {
		t.Error("a secret is logged:\n" + s.Log())
	}
}
