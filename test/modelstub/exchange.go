package modelstub

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"
)

// A dialect is one API: how it puts requests, replies and failures.
type dialect interface {
	// parse fills in what the body says; a body that cannot be read leaves KindOther.
	parse(*Request)
	// prefixes are those of the ids of replies and of tool calls.
	prefixes() (reply, call string)
	// stream puts the reply to r on w, piece by piece.
	stream(w *bufio.Writer, r *Request) renderer
	// whole is a reply in one piece.
	whole(reply, []content) []byte
	// failure is the status and the body of an HTTP error.
	failure(Failure, string) (int, []byte)
	// count answers the request to count tokens.
	count(*Request) []byte
}

// A renderer writes the events of one stream.
type renderer interface {
	begin(reply)
	open(int, content) // its text is not yet said
	delta(int, blockKind, string)
	shut(int, content, func() string) // the function gives all that was said
	end(reply)
	fail(Failure, string)
	event(name, data string)
}

// reply is what an API says about a message apart from its content.
type reply struct {
	id, model, stop string
	usage           Usage
}

// content is a block of a message.
type content struct {
	kind                             blockKind
	id, name, namespace, phase, text string
	custom                           bool // a freeform tool
	raw                              []byte
}

// exchange answers one request.
type exchange struct {
	sc  *Scenario
	req *Request
	w   http.ResponseWriter
	r   *http.Request
	d   dialect
	id  string // of the request
}

var (
	errGone = errors.New("the client went away, or the server closes")
	errOver = errors.New("the script ends the stream here")
)

func (x *exchange) serve(path string) {
	base, counts := path, false
	for _, suffix := range []string{"/count_tokens", "/input_tokens"} {
		if b, ok := strings.CutSuffix(path, suffix); ok {
			base, counts = b, true
		}
	}
	d, ok := dialects["/"+strings.TrimPrefix(strings.TrimPrefix(base, "/"), "v1/")]
	if !ok || x.r.Method != http.MethodPost {
		x.other(base)
		return
	}
	x.d, x.id = d, x.sc.id("req")
	d.parse(x.req)
	if counts && x.req.Kind != KindOther {
		x.req.Kind = KindCount
	}
	if !x.sc.authorized(x.req.Header) {
		x.req.Kind = KindRejected
	}
	if x.req.Kind == KindStream {
		x.play(x.sc.next(x.req))
		return
	}
	x.sc.record(x.req)
	x.answer()
}

// other answers what is no request to a model.
func (x *exchange) other(path string) {
	models := x.r.Method == http.MethodGet && (path == "/models" || path == "/v1/models")
	if models {
		x.req.Kind = KindModels
	}
	x.sc.record(x.req)
	switch {
	case models:
		x.json(http.StatusOK, openaiModels())
	case x.r.Header.Get("Upgrade") != "": // a WebSocket: the client goes back to HTTP
		http.Error(x.w, "no WebSockets here", http.StatusUpgradeRequired)
	default:
		http.NotFound(x.w, x.r)
	}
}

// answer is for requests that use up no turn.
func (x *exchange) answer() {
	switch x.req.Kind {
	case KindRejected:
		x.fail(Failure{Status: http.StatusUnauthorized})
	case KindCount:
		x.json(http.StatusOK, x.d.count(x.req))
	case KindProbe:
		x.whole(Say(Text("ok")).Stops("max_tokens"))
	case KindWhole:
		x.whole(x.sc.whole())
	default:
		x.fail(Failure{Status: http.StatusBadRequest, Message: "the body is not a request of this API"})
	}
}

func (x *exchange) whole(t Turn) {
	if t.cutAll != "" {
		_ = x.cut(t.cutAll) // nothing follows either way
		return
	}
	if t.Fail != nil {
		x.fail(*t.Fail)
		return
	}
	var cs []content
	for _, b := range t.Blocks {
		if b.kind != kindControl {
			c := x.content(b)
			c.text = b.expand(x.req)
			cs = append(cs, c)
		}
	}
	x.json(http.StatusOK, x.d.whole(x.reply(t), cs))
}

func (x *exchange) reply(t Turn) reply {
	prefix, _ := x.d.prefixes()
	rp := reply{id: x.sc.id(prefix), model: x.req.Model, stop: t.StopReason, usage: x.sc.usage(x.req, t)}
	if rp.stop == "" {
		rp.stop = "end_turn"
		for _, b := range t.Blocks {
			if b.kind == kindTool {
				rp.stop = "tool_use"
			}
		}
	}
	return rp
}

// content is a block with nothing said yet.
func (x *exchange) content(b Block) content {
	c := content{kind: b.kind, id: b.id, name: b.name, raw: b.raw, namespace: b.namespace, phase: b.phase, custom: b.custom}
	if c.kind == kindTool && c.id == "" {
		_, prefix := x.d.prefixes()
		c.id = x.sc.id(prefix)
	}
	return c
}

func (x *exchange) json(status int, body []byte) {
	x.w.Header().Set("Content-Type", "application/json")
	x.w.Header().Set("Request-Id", x.id)
	x.w.WriteHeader(status)
	_, _ = x.w.Write(body) // a client that has gone needs no answer
}

func (x *exchange) fail(f Failure) {
	for k, vs := range f.Header {
		x.w.Header()[k] = vs
	}
	if f.RetryAfter > 0 {
		x.w.Header().Set("Retry-After", seconds(f.RetryAfter))
	}
	status, body := x.d.failure(f, x.id)
	x.json(status, body)
}

// wait blocks until c, the end of the request or the end of the server. A nil
// c never comes.
func (x *exchange) wait(c <-chan struct{}) error {
	select {
	case <-c:
		return nil
	case <-x.r.Context().Done():
	case <-x.sc.srv.closing:
	}
	return errGone
}

func (x *exchange) sleep(d time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return x.wait(ctx.Done())
}

// cut ends the connection; what it returns ends the stream.
func (x *exchange) cut(c Cut) error {
	switch c {
	case CutEOF:
		return errOver
	case CutReset:
		conn, _, err := http.NewResponseController(x.w).Hijack()
		if err != nil {
			return err
		}
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // makes Close send RST instead of FIN
		}
		_ = conn.Close()
		return errOver
	default:
		panic(http.ErrAbortHandler)
	}
}
