package adapter_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"innerd/adapter"
	"innerd/adapter/api"
	"innerd/events/journal"
)

// server is a server under test with its own listener.
type server struct {
	*httptest.Server
	adapter *adapter.Server
	fake    *fake
	key     string
}

func serve(t testing.TB, change func(*adapter.Options)) *server {
	t.Helper()
	f := newFake(t)
	opt := adapter.Options{Runs: f, Open: true, Version: "test", Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&opt)
	}
	a, err := adapter.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{Server: httptest.NewUnstartedServer(a.Handler()), adapter: a, fake: f}
	s.Config.ConnContext = adapter.ConnContext
	s.Start()
	s.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return errors.New("redirected") }
	t.Cleanup(func() {
		a.Cut()
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (s *server) request(t testing.TB, method, path, body string, header ...string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if s.key != "" {
		req.Header.Set("Authorization", "Bearer "+s.key)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
		req.Header.Set(header[i], header[i+1])
	}
	return req
}

func (s *server) do(t testing.TB, method, path, body string, header ...string) *http.Response {
	t.Helper()
	res, err := s.Client().Do(s.request(t, method, path, body, header...))
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

// call does a request and reads the whole answer.
func (s *server) call(t testing.TB, method, path, body string, header ...string) (int, string) {
	t.Helper()
	res := s.do(t, method, path, body, header...)
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return res.StatusCode, string(data)
}

// fails asserts an error answer: status, error_type, and words in detail.
func (s *server) fails(t testing.TB, method, path, body string, status int, errorType, words string, header ...string) {
	t.Helper()
	res := s.do(t, method, path, body, header...)
	data, _ := io.ReadAll(res.Body)
	var e api.Error
	if err := json.Unmarshal(data, &e); err != nil {
		t.Errorf("%s %s: %s is no JSON: %v", method, path, data, err)
		return
	}
	if res.StatusCode != status || e.ErrorType != errorType || !strings.Contains(e.Detail, words) || e.Detail == "" {
		t.Errorf("%s %s: %d %s, want %d %s %q", method, path, res.StatusCode, data, status, errorType, words)
	}
	if ct := res.Header.Get("Content-Type"); ct != "application/json" {
		t.Errorf("%s %s: Content-Type %q", method, path, ct)
	}
	if v := res.Header.Get("A2A-Version"); v != "0.3.0" {
		t.Errorf("%s %s: A2A-Version %q", method, path, v)
	}
}

// reader reads a stream's frames.
type reader struct {
	t    testing.TB
	body *bufio.Reader
	res  *http.Response
}

type frame struct {
	id   string
	data string
	typ  string
}

func (s *server) stream(t testing.TB, method, path, body string, header ...string) *reader {
	t.Helper()
	res := s.do(t, method, path, body, header...)
	if res.StatusCode != http.StatusOK {
		data, _ := io.ReadAll(res.Body)
		t.Fatalf("%s %s: %d %s", method, path, res.StatusCode, data)
	}
	return &reader{t: t, body: bufio.NewReaderSize(res.Body, 64<<10), res: res}
}

func (r *reader) next() (frame, error) {
	var f frame
	for {
		line, err := r.body.ReadString('\n')
		if err != nil {
			return f, err
		}
		line = strings.TrimSuffix(line, "\n")
		switch {
		case line == "":
			var e struct {
				Type string `json:"type"`
			}
			_ = json.Unmarshal([]byte(f.data), &e)
			f.typ = e.Type
			return f, nil
		case strings.HasPrefix(line, "id: "):
			f.id = line[4:]
		case strings.HasPrefix(line, "data: "):
			f.data = line[6:]
		default:
			r.t.Errorf("a line that hosts do not know: %q", line)
		}
	}
}

// want reads the next frame and asserts its type.
func (r *reader) want(typ string) frame {
	r.t.Helper()
	f, err := r.next()
	if err != nil || f.typ != typ {
		r.t.Fatalf("%+v %v, want %s", f, err, typ)
	}
	return f
}

// rest reads to the end of the body.
func (r *reader) rest() (list []frame, err error) {
	for {
		f, err := r.next()
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return list, err
		}
		list = append(list, f)
	}
}

// finish asserts that the stream ends as it should.
func (r *reader) finish() []frame {
	r.t.Helper()
	list, err := r.rest()
	if err != nil || len(list) == 0 || list[len(list)-1].data != "[DONE]" {
		r.t.Fatalf("the end: %+v %v", list, err)
	}
	return list[:len(list)-1]
}

func types(list []frame) string {
	var out []string
	for _, f := range list {
		out = append(out, f.typ)
	}
	return strings.Join(out, " ")
}

// journalFrames is the log as its frames should look.
func journalFrames(t testing.TB, log *journal.Log) []byte {
	t.Helper()
	var buf bytes.Buffer
	c, err := log.Follow(0, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for {
		b, err := c.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return buf.Bytes()
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range b.Frames() {
			buf.Write(f)
		}
	}
}
