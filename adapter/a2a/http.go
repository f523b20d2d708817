package a2a

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"innerd/adapter/a2a/extension"
	"innerd/adapter/a2a/spec"
	"innerd/adapter/apart"
	"innerd/runs"
)

// Prefix is where the binding is mounted.
const Prefix = "/a2a"

// Handler serves everything below Prefix: JSON-RPC at Prefix itself, HTTP+JSON
// below it, and both once more for each agent at Prefix/agents/{name}, with its
// card.
func (s *Server) Handler() http.Handler { return s.recovered(s.route) }

// OpenPath reports whether a request needs no key: cards.
func OpenPath(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && strings.HasSuffix(r.URL.Path, CardPath)
}

// CardPath is where cards are, below a host or an agent.
const CardPath = "/.well-known/agent-card.json"

// Refuse answers a request that is not let in, in the words of HTTP+JSON.
func Refuse(w http.ResponseWriter, _ *http.Request, status int, why string) {
	e := spec.ErrForbidden.With("%s", why)
	switch status {
	case http.StatusUnauthorized:
		e = spec.ErrUnauthenticated
	case http.StatusTooManyRequests:
		e = spec.ErrRateLimited.With("%s", why)
	}
	writeJSON(w, status, "application/json", e.REST())
}

// recovered answers a panic with an internal error and leaves the server as it
// was.
func (s *Server) recovered(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(http.ErrAbortHandler)
			}
			s.log.Error("panic in an A2A handler", "path", r.URL.Path, "panic", v, "stack", string(debug.Stack()))
			panic(http.ErrAbortHandler) // an answer may have begun
		}()
		next(w, r)
	})
}

// route finds what a path below Prefix means.
func (s *Server) route(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("A2A-Version", spec.Version)
	segs := segments(strings.TrimPrefix(r.URL.Path, Prefix))
	c := s.call(r)
	if len(segs) > 1 && segs[0] == "agents" {
		c.Tenant, segs = segs[1], segs[2:]
	}
	switch {
	case len(segs) == 0:
		s.serveRPC(w, r, c)
	case "/"+strings.Join(segs, "/") == CardPath:
		s.serveCard(w, r, c.Tenant)
	case segs[0] == "v1":
		s.serveLegacyREST(w, r, c, segs)
	default:
		if !verb(segs[0]) && c.Tenant == "" && len(segs) > 1 {
			c.Tenant, segs = segs[0], segs[1:]
		}
		s.serveREST(w, r, c, segs)
	}
}

func segments(path string) []string {
	path = strings.Trim(path, "/")
	if path == "" {
		return nil
	}
	return strings.Split(path, "/")
}

// verb reports whether a path segment is the protocol's own, so no tenant.
func verb(seg string) bool {
	return slices.Contains([]string{"message:send", "message:stream", "tasks", "extendedAgentCard"}, seg)
}

// call reads who calls and how.
func (s *Server) call(r *http.Request) Call {
	c := Call{Owner: s.opt.Owner(r.Context()), Key: r.Header.Get("Idempotency-Key"), After: -1, Base: s.base(r)}
	c.Traceparent, c.Tracestate = r.Header.Get("traceparent"), r.Header.Get("tracestate")
	for _, name := range []string{"A2A-Extensions", "X-A2A-Extensions"} {
		for _, line := range r.Header.Values(name) {
			for uri := range strings.SplitSeq(line, ",") {
				c.Ext = c.Ext || strings.TrimSpace(uri) == extension.URI
			}
		}
	}
	if id, err := strconv.ParseInt(strings.TrimSpace(r.Header.Get("Last-Event-ID")), 10, 64); err == nil && id >= 0 {
		c.After = id
	}
	return c
}

// base is where the server is for the outside, with a slash at its end.
func (s *Server) base(r *http.Request) string {
	if s.opt.URL != "" {
		return strings.TrimRight(s.opt.URL, "/") + "/"
	}
	return s.opt.BaseURL(r)
}

// versionOf is the generation that a request asks for: "" where it says
// nothing, which by the specification is 0.3; an *spec.Error for one that is
// not spoken here.
func versionOf(r *http.Request) (string, error) {
	v := strings.TrimSpace(r.Header.Get("A2A-Version"))
	if v == "" {
		v = strings.TrimSpace(r.URL.Query().Get("A2A-Version"))
	}
	return CheckVersion(v)
}

// CheckVersion reads the value of A2A-Version. Patches do not count.
func CheckVersion(v string) (string, error) {
	parts := strings.Split(v, ".")
	short := v
	if len(parts) > 2 {
		short = strings.Join(parts[:2], ".")
	}
	switch short {
	case "", "0.3":
		return short, nil
	case "1", "1.0":
		return spec.Version, nil
	}
	e := spec.ErrVersion.With("A2A-Version %s is not supported; these are: 1.0, 0.3", v)
	e.Info = map[string]string{"requested": v, "supported": "1.0, 0.3"}
	return "", e
}

// echo says which extensions are active.
func echo(w http.ResponseWriter, c Call) {
	if c.Ext {
		w.Header().Set("A2A-Extensions", extension.URI)
	}
}

// growFrom is how many bytes of a body come before room is made for as many
// as it says: a Content-Length is only a promise.
const growFrom = 1 << 20

// body reads a request's body as JSON.
func (s *Server) body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if t := r.Header.Get("Content-Type"); t != "" {
		media, _, err := mime.ParseMediaType(t)
		if err != nil || media != "application/json" && !strings.HasSuffix(media, "+json") {
			e := spec.ErrContentType.With("the body must be application/json or application/a2a+json, not %q", t)
			e.HTTP = http.StatusUnsupportedMediaType // HTTP's own word for a body that is not JSON
			return nil, e
		}
	}
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(2 * s.opt.Write))
	defer func() { _ = rc.SetReadDeadline(time.Time{}) }()
	var buf bytes.Buffer
	n, err := io.CopyN(&buf, r.Body, min(growFrom, s.opt.BodyLimit+1))
	if err == nil {
		if rest := min(r.ContentLength, s.opt.BodyLimit) - n; rest > 0 {
			buf.Grow(int(rest) + bytes.MinRead) // once: doubling would need three times as much
		}
		var more int64
		more, err = io.Copy(&buf, io.LimitReader(r.Body, s.opt.BodyLimit+1-n))
		n += more
	} else if errors.Is(err, io.EOF) {
		err = nil
	}
	switch {
	case n > s.opt.BodyLimit:
		w.Header().Set("Connection", "close")
		return nil, spec.ErrTooLarge.With("the body is longer than %d bytes", s.opt.BodyLimit)
	case errors.Is(err, runs.ErrDraining): // it waited for its turn
		w.Header().Set("Connection", "close")
		return nil, spec.ErrUnavailable.With("the server is stopping")
	case err != nil:
		return nil, spec.ErrRequest.With("the body did not arrive")
	}
	return buf.Bytes(), nil
}

func writeJSON(w http.ResponseWriter, status int, mediaType string, data []byte) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(DefaultWrite))
	h := w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(status)
	_, _ = w.Write(data) // a reader that is gone has no use for the error
}

// sender writes a stream's events, each within a time for each piece.
type sender struct {
	w     io.Writer
	rc    *http.ResponseController
	limit time.Duration
	buf   []byte
}

const (
	sendPiece = 64 << 10
	sendBatch = 256 << 10
)

func (p *sender) write(b []byte) error {
	for len(b) > 0 {
		n := min(len(b), sendPiece)
		_ = p.rc.SetWriteDeadline(time.Now().Add(p.limit)) // a reader that takes nothing is cut
		if _, err := p.w.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return p.rc.Flush()
}

// serveStream sends a stream's events. wrap is an event as its binding says
// it, fail the lines of an error that comes when the stream is open.
func (s *Server) serveStream(w http.ResponseWriter, r *http.Request, st *Stream, wrap func(dst []byte, v spec.StreamResponse) []byte, fail func(*spec.Error) []byte) {
	defer st.Close()
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
	p := &sender{w: w, rc: http.NewResponseController(w), limit: s.opt.Write}
	var err error
	apart.Do(func() {
		w.WriteHeader(http.StatusOK)
		err = p.rc.Flush()
	})
	if err != nil {
		return
	}
	ctx, wrote := r.Context(), time.Now()
	for {
		f, err := st.next(ctx, wrote.Add(s.opt.Heartbeat))
		switch {
		case errors.Is(err, io.EOF) || ctx.Err() != nil:
			return
		case errors.Is(err, errTick):
			apart.Do(func() { err = p.write([]byte(": still here\n\n")) })
		case err != nil:
			_ = p.write(fail(s.public(ctx, "stream", err))) // its end says the rest
			return
		default:
			apart.Do(func() { err = p.frames(st, f, wrap) })
		}
		if err != nil {
			return
		}
		wrote = time.Now()
	}
}

// frames writes an event and those that are ready behind it.
func (p *sender) frames(st *Stream, f frame, wrap func([]byte, spec.StreamResponse) []byte) error {
	buf := p.buf[:0]
	for {
		if f.id > 0 {
			buf = fmt.Appendf(buf, "id: %d\n", f.id)
		}
		buf = append(buf, "data: "...)
		buf = append(wrap(buf, f.response), "\n\n"...)
		if len(buf) > sendBatch || !st.ready() {
			break
		}
		next, err := st.next(context.Background(), time.Time{}) // it is ready: nothing waits
		if err != nil {
			break
		}
		f = next
	}
	if p.buf = buf; cap(buf) > 2*sendBatch || !st.ready() {
		p.buf = nil // an idle reader holds nothing
	}
	return p.write(buf)
}
