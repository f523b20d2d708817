package contract

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

type testKey struct{}

// With names the test that is to fail if the answer to a request with this
// context is not what the document says.
func With(ctx context.Context, t testing.TB) context.Context {
	return context.WithValue(ctx, testKey{}, t)
}

// Transport compares what base brings with the document. A request whose
// context names no test fails t; where that is nil too, it is let through.
func Transport(base http.RoundTripper, t testing.TB) http.RoundTripper {
	return &transport{base, t}
}

type transport struct {
	base http.RoundTripper
	t    testing.TB
}

// CloseIdleConnections is for http.Client.
func (tr *transport) CloseIdleConnections() {
	if c, ok := tr.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// RoundTrip implements http.RoundTripper.
func (tr *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := tr.base.RoundTrip(req)
	t, ok := req.Context().Value(testKey{}).(testing.TB)
	if !ok {
		t = tr.t
	}
	if err != nil || t == nil {
		return resp, err
	}
	check(req, resp, func(err error) {
		if t.Context().Err() == nil { // nobody could say it any more
			t.Error(unlike(req, err))
		}
	})
	return resp, nil
}

// unlike is a fault of the answer to a request.
func unlike(req *http.Request, err error) error {
	return fmt.Errorf("%s %s: not as docs/openapi.json has it: %w", req.Method, req.URL.Path, err)
}

// check looks at the head of an answer, and at its body as it is read.
func check(req *http.Request, resp *http.Response, report func(error)) {
	r, err := load()
	if err != nil {
		report(err)
		return
	}
	method := req.Method
	if method == http.MethodOptions {
		return
	}
	op, _ := r.find(method, req.URL.Path)
	if method == http.MethodHead {
		op, _ = r.find(http.MethodGet, req.URL.Path)
	}
	schema, events, err := r.answer(op, resp.StatusCode, resp.Header.Get("Content-Type"))
	switch {
	case err != nil:
		report(err)
	case isHead(method, resp.StatusCode):
	case events:
		resp.Body = &watched{resp.Body, &stream{rules: r, report: report, seen: map[string]int{}}}
	case schema != nil:
		resp.Body = &watched{resp.Body, &value{schema: schema, report: report}}
	}
}

// watched shows a body to a reader of ours as the test reads it.
type watched struct {
	io.ReadCloser
	to interface {
		take([]byte)
		end()
	}
}

// Read implements io.Reader.
func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	w.to.take(p[:n])
	if err == io.EOF { //nolint:errorlint // it is never wrapped
		w.to.end()
	}
	return n, err
}

// maxValue is the longest body, or event, that is decoded.
const maxValue = 8 << 20

// value is a JSON body.
type value struct {
	schema *jsonschema.Schema
	report func(error)
	buf    bytes.Buffer
	over   bool
}

func (v *value) take(p []byte) {
	if v.over = v.over || v.buf.Len()+len(p) > maxValue; !v.over {
		v.buf.Write(p)
	}
}

func (v *value) end() {
	if v.over {
		return
	}
	v.over = true
	if err := fits(v.schema, v.buf.Bytes()); err != nil {
		v.report(fmt.Errorf("%w\n%.600s", err, v.buf.Bytes()))
	}
}

func fits(s *jsonschema.Schema, raw []byte) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("the body is not JSON: %w", err)
	}
	return s.Validate(v)
}

// stream is a stream of events.
type stream struct {
	rules  *rules
	report func(error)
	line   []byte // begun
	long   bool   // it is too long to be looked at
	seen   map[string]int
	last   string // the id that stands before the data
	failed bool
}

func (s *stream) take(p []byte) {
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		part := p
		if i >= 0 {
			part = p[:i]
		}
		if s.long = s.long || len(s.line)+len(part) > maxValue; !s.long {
			s.line = append(s.line, part...)
		}
		if i < 0 {
			return
		}
		if !s.long && !s.failed {
			if err := s.check(string(s.line)); err != nil {
				s.failed = true // one is enough
				s.report(fmt.Errorf("%w\n%.600s", err, s.line))
			}
		}
		s.line, s.long, p = s.line[:0], false, p[i+1:]
	}
}

func (s *stream) end() {}

// Of each type these many of a stream are all looked at, then one of some: a
// stream of a million deltas is no test of the document.
const (
	all  = 200
	some = 50
)

func (s *stream) check(line string) error {
	if line == "" { // the data before it may have been too long
		s.last = ""
		return nil
	}
	if id, ok := strings.CutPrefix(line, "id: "); ok {
		s.last = id
		return nil
	}
	data, ok := strings.CutPrefix(line, "data: ")
	switch {
	case !ok:
		return fmt.Errorf("a line that is neither id nor data")
	case data == "[DONE]":
		return nil
	}
	_, rest, _ := strings.Cut(data[:min(len(data), 200)], `"type":"`)
	name, _, ok := strings.Cut(rest, `"`)
	if !ok {
		return fmt.Errorf("an event without a type")
	}
	id := s.last
	s.last = ""
	if id != "" && !strings.HasPrefix(data, `{"id":`+id+",") {
		return fmt.Errorf("the id of the frame, %s, is not the event's", id)
	}
	schema := s.rules.events[name]
	if schema == nil {
		return fmt.Errorf("the type %q is none of the document's", name)
	}
	if s.seen[name]++; s.seen[name] > all && s.seen[name]%some != 0 {
		return nil
	}
	return fits(schema, []byte(data))
}
