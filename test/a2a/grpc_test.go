package a2a_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"innerd/test/a2a/rig"
)

// stub is a client on one connection, of which each stream takes no more than
// 64 KiB that nobody reads.
func stub(t *testing.T, s *rig.Server, more ...grpc.DialOption) pb.A2AServiceClient {
	t.Helper()
	cc, err := grpc.NewClient(s.GRPC, append(more, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithInitialWindowSize(64<<10), grpc.WithInitialConnWindowSize(64<<20), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cc.Close() })
	return pb.NewA2AServiceClient(cc)
}

func ask(id, text string) *pb.SendMessageRequest {
	return &pb.SendMessageRequest{Message: &pb.Message{
		MessageId: id, Role: pb.Role_ROLE_USER, Parts: []*pb.Part{{Content: &pb.Part_Text{Text: text}}},
	}}
}

// told is a log that passes on which calls were cut.
type told chan string

func (c told) Enabled(context.Context, slog.Level) bool { return true }
func (c told) WithAttrs([]slog.Attr) slog.Handler       { return c }
func (c told) WithGroup(string) slog.Handler            { return c }

func (c told) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "gRPC stream cut" {
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == "method" {
				c <- a.Value.String()
			}
			return true
		})
	}
	return nil
}

func (c told) wait(t *testing.T, method string) {
	t.Helper()
	select {
	case got := <-c:
		if !strings.HasSuffix(got, method) {
			t.Errorf("cut: %s, want %s", got, method)
		}
	case <-time.After(soon):
		t.Fatal("it was not cut")
	}
}

// flooded is a task that has said so much, and goes on.
func flooded(t *testing.T, s *rig.Server, kB int) (c *client, id string) {
	t.Helper()
	c = newClient(t, s)
	id = c.send(message("flooded", "go", script(fmt.Sprintf(`[{"flood":{"deltas":%d,"bytes":1000}},{"ask":{"message":"go on?"}}]`, kB), nil))).ID
	return c, id
}

// Of two streams of a connection the one that nobody reads is cut, and only that.
func TestGRPCReaderThatTakesNothingIsCut(t *testing.T) {
	cut := make(told, 10)
	s := start(t, rig.Options{Dir: t.TempDir(), GRPC: "127.0.0.1:0", Write: 2 * time.Second, Logger: slog.New(cut)})
	c, id := flooded(t, s, 2500)
	g := stub(t, s)
	stuck, err := g.SubscribeToTask(t.Context(), &pb.SubscribeToTaskRequest{Id: id})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stuck.Recv(); err != nil {
		t.Fatal(err)
	}
	healthy, err := g.SubscribeToTask(t.Context(), &pb.SubscribeToTaskRequest{Id: id})
	if err != nil {
		t.Fatal(err)
	}
	got, ended := make(chan int, 1), make(chan error, 1)
	go func() { // ends with the task
		n := 0
		for {
			e, err := healthy.Recv()
			if err != nil {
				got <- n
				ended <- err
				return
			}
			for _, p := range e.GetArtifactUpdate().GetArtifact().GetParts() {
				n += len(p.GetText())
			}
		}
	}()
	cut.wait(t, "/SubscribeToTask")
	for err == nil {
		_, err = stuck.Recv()
	}
	if errors.Is(err, io.EOF) {
		t.Error("its stream has a clean end")
	}
	c.send(message("answer", "yes", inTask(id)))
	if n, err := <-got, <-ended; n < 2500*1000 || !errors.Is(err, io.EOF) {
		t.Errorf("the other one has %d bytes, and then %v", n, err)
	}
}

// An answer that nobody takes does not stay for as long as its caller likes.
func TestGRPCAnswerThatNobodyTakesIsCut(t *testing.T) {
	cut := make(told, 10)
	s := start(t, rig.Options{Dir: t.TempDir(), GRPC: "127.0.0.1:0", Write: time.Second, Logger: slog.New(cut)})
	_, id := flooded(t, s, 2500)
	r := raw(t, s, "GetTask", framed(t, &pb.GetTaskRequest{Id: id}), -1)
	resp := <-r.answer
	cut.wait(t, "/GetTask")
	if n, err := io.Copy(io.Discard, resp.Body); err == nil {
		t.Errorf("it was cut and has a clean end, %d bytes", n)
	}
}

// A reader that takes little, but steadily, is not cut.
func TestGRPCSlowReaderIsNotCut(t *testing.T) {
	const limit = 3 * time.Second // a busy machine may not run the reader for a good part of a second
	s := start(t, rig.Options{Dir: t.TempDir(), GRPC: "127.0.0.1:0", Write: limit})
	_, id := flooded(t, s, 3000)
	began := time.Now()
	g := stub(t, s, grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err == nil {
			_ = conn.(*net.TCPConn).SetReadBuffer(128 << 10)
		}
		return slow{conn}, err
	}))
	task, err := g.GetTask(t.Context(), &pb.GetTaskRequest{Id: id})
	n := 0
	for _, a := range task.GetArtifacts() {
		for _, p := range a.Parts {
			n += len(p.GetText())
		}
	}
	if took := time.Since(began); err != nil || n != 3000*1000 || took < 2*limit {
		t.Errorf("%d bytes in %v: %v", n, took, err)
	}
}

// slow is a connection that is read a little at a time.
type slow struct{ net.Conn }

func (c slow) Read(p []byte) (int, error) {
	time.Sleep(20 * time.Millisecond) // the slowness under test
	return c.Conn.Read(p[:min(len(p), 8<<10)])
}

// rawCall is a call whose message is given piece by piece.
type rawCall struct {
	asked  chan struct{} // closed when the server asks for the message
	answer chan *http.Response
}

var h2c = func() *http.Protocols {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	return p
}()

// raw makes a call; a length of its body says that the server shall ask for it.
func raw(t *testing.T, s *rig.Server, method string, body io.Reader, length int64) *rawCall {
	t.Helper()
	c := &rawCall{make(chan struct{}), make(chan *http.Response, 1)}
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got100Continue: func() { close(c.asked) }})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.GRPC+"/lf.a2a.v1.A2AService/"+method, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}}
	req.ContentLength = length
	if length >= 0 {
		req.Header.Set("Expect", "100-continue")
	}
	tr := &http.Transport{Protocols: h2c, ExpectContinueTimeout: time.Hour, HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10}}
	t.Cleanup(tr.CloseIdleConnections)
	go func() { // ends with the call
		resp, err := tr.RoundTrip(req)
		if err != nil {
			if t.Context().Err() == nil {
				t.Error(err)
			}
			close(c.answer)
			return
		}
		c.answer <- resp
	}()
	return c
}

// framed is a message as gRPC sends it.
func framed(t *testing.T, m proto.Message) *bytes.Reader {
	t.Helper()
	raw, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(raw))), raw...))
}

// code reads a call's answer to its end.
func (c *rawCall) code(t *testing.T) string {
	t.Helper()
	resp, ok := <-c.answer
	if !ok {
		return "none"
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Error(err)
	}
	if v := resp.Header.Get("Grpc-Status"); v != "" {
		return v
	}
	return resp.Trailer.Get("Grpc-Status")
}

const (
	largeText = 2 << 20                // of a large message; two of them are over the limit
	meanwhile = 300 * time.Millisecond // for what would come at once
)

// Of large messages no more are read at once than the longest one may be long;
// the next waits, and the small ones do not.
func TestGRPCLargeMessagesTakeTurns(t *testing.T) {
	s := start(t, rig.Options{GRPC: "127.0.0.1:0", BodyLimit: largeText * 3 / 2})
	large := func(id string) (*bytes.Reader, int64) {
		b := framed(t, ask("tck-complete-task-"+id, strings.Repeat("x", largeText)))
		return b, b.Size()
	}
	// The first is asked for, and does not come.
	hold, fill := io.Pipe()
	body, n := large("1")
	first := raw(t, s, "SendMessage", hold, n)
	<-first.asked
	body2, n2 := large("2")
	second := raw(t, s, "SendMessage", body2, n2)
	// One that does not say how long it is comes up to where it is a large one.
	body3, _ := large("3")
	third := raw(t, s, "SendMessage", body3, -1)
	if _, err := stub(t, s).SendMessage(t.Context(), ask("tck-complete-task-small", "hello")); err != nil {
		t.Errorf("a small one meanwhile: %v", err)
	}
	select {
	case <-second.asked:
		t.Error("two large messages are read at once")
	case <-third.answer:
		t.Error("one that does not say how long it is was read beside another")
	case <-time.After(meanwhile):
	}
	if _, err := body.WriteTo(fill); err != nil {
		t.Fatal(err)
	}
	_ = fill.Close()
	for i, c := range []*rawCall{first, second, third} {
		if code := c.code(t); code != "0" {
			t.Errorf("call %d: status %s", i, code)
		}
	}
}

// A message over the limit is refused by its length, before it comes.
func TestGRPCMessageOverTheLimit(t *testing.T) {
	s := start(t, rig.Options{GRPC: "127.0.0.1:0", BodyLimit: largeText / 2})
	_, err := stub(t, s).SendMessage(t.Context(), ask("tck-complete-task-large", strings.Repeat("x", largeText)))
	if status.Code(err) != codes.ResourceExhausted {
		t.Error(err)
	}
}

// zeros is so many bytes, and how many of them were read.
type zeros struct{ left, read atomic.Int64 }

func (z *zeros) Read(p []byte) (int, error) {
	n := min(int64(len(p)), z.left.Load())
	if n == 0 {
		return 0, io.EOF
	}
	clear(p[:n])
	z.left.Add(-n)
	z.read.Add(n)
	return int(n), nil
}

// What comes behind a call's message is no way around the limit, and what it
// would be is not asked: nothing begins.
func TestGRPCBodyThatDoesNotEnd(t *testing.T) {
	s := start(t, rig.Options{GRPC: "127.0.0.1:0", BodyLimit: largeText / 2})
	more := new(zeros)
	more.left.Store(20 * largeText)
	c := raw(t, s, "SendMessage", io.MultiReader(framed(t, ask("tck-complete-task-endless", "hello")), more), -1)
	if code := c.code(t); code != "8" {
		t.Errorf("status %s", code)
	}
	if n := more.read.Load(); n > 10*largeText {
		t.Errorf("%d bytes of it were taken", n)
	}
}
