package modelstub_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"innerd/test/modelstub"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newStub(t *testing.T) *modelstub.Server {
	t.Helper()
	s := modelstub.New()
	t.Cleanup(s.Close)
	return s
}

const ask = `{"model":"m-1","max_tokens":100,"stream":true,"messages":[{"role":"user","content":"hello"}]}`

// post asks the scenario as an agent would.
func post(t *testing.T, sc *modelstub.Scenario, path, body string) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, sc.BaseURL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", sc.Key())
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return c.Do(req)
}

func mustPost(t *testing.T, sc *modelstub.Scenario, path, body string) *http.Response {
	t.Helper()
	res, err := post(t, sc, path, body)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

// sse is one event of a stream.
type sse struct {
	name string
	data map[string]any
}

type sseReader struct{ sc *bufio.Scanner }

func newSSE(r io.Reader) *sseReader {
	s := bufio.NewScanner(r)
	s.Buffer(nil, 256<<20)
	return &sseReader{s}
}

// next gives io.EOF at a clean end.
func (r *sseReader) next() (sse, error) {
	var e sse
	for r.sc.Scan() {
		line := r.sc.Text()
		switch {
		case strings.HasPrefix(line, "event: "):
			e.name = line[len("event: "):]
		case strings.HasPrefix(line, "data: "):
			if err := json.Unmarshal([]byte(line[len("data: "):]), &e.data); err != nil {
				return e, err
			}
		case line == "":
			return e, nil
		}
	}
	if err := r.sc.Err(); err != nil {
		return e, err
	}
	return e, io.EOF
}

// said is what a stream says, and how it ended.
type said struct {
	events   []string // names without deltas and pings
	blocks   []string // type:content of each block
	deltas   int
	stop     string
	errorMsg string
	usage    map[string]any
	err      error // nil: a clean end of the body

	building []*strings.Builder
}

// take adds an event.
func (s *said) take(e sse) {
	if e.name != "content_block_delta" && e.name != "ping" {
		s.events = append(s.events, e.name)
	}
	switch e.name {
	case "content_block_start":
		b := e.data["content_block"].(map[string]any)
		name, _ := b["name"].(string)
		id, _ := b["id"].(string)
		sb := &strings.Builder{}
		sb.WriteString(strings.Join(strings.Fields(b["type"].(string)+" "+name+" "+id), " ") + ":")
		s.building = append(s.building, sb)
	case "content_block_delta":
		s.deltas++
		d := e.data["delta"].(map[string]any)
		for _, k := range []string{"text", "thinking", "partial_json"} {
			if v, ok := d[k].(string); ok {
				s.building[int(e.data["index"].(float64))].WriteString(v)
			}
		}
	case "message_delta":
		s.stop, _ = e.data["delta"].(map[string]any)["stop_reason"].(string)
		s.usage, _ = e.data["usage"].(map[string]any)
	case "error":
		s.errorMsg, _ = e.data["error"].(map[string]any)["type"].(string)
	}
}

// listen reads a stream to its end.
func listen(r io.Reader) said {
	var s said
	for sr := newSSE(r); ; {
		e, err := sr.next()
		if err == nil {
			s.take(e)
			continue
		}
		if !errors.Is(err, io.EOF) {
			s.err = err
		}
		for _, sb := range s.building {
			s.blocks = append(s.blocks, sb.String())
		}
		return s
	}
}
