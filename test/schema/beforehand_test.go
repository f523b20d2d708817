package schema_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"innerd/adapter/published"
)

// said is what an answer is, before its body.
type said struct {
	status int
	media  string
}

// TestWhatHTTPAnswersItselfIsDescribed asks net/http for what it refuses
// before any handler sees it, and looks for that in every operation.
func TestWhatHTTPAnswersItselfIsDescribed(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s %s came through", r.Method, r.URL)
	}))
	srv.Config.MaxHeaderBytes = 64 << 10
	srv.Start()
	defer srv.Close()
	answers := []said{
		ask(t, srv.Listener.Addr(), "Expect: a miracle"),
		ask(t, srv.Listener.Addr(), "X-Long: "+strings.Repeat("x", 80<<10)),
	}
	var doc struct {
		Paths map[string]map[string]struct {
			Responses map[string]struct {
				Ref string `json:"$ref"`
			}
		}
		Components struct {
			Responses map[string]struct{ Content map[string]any }
		}
	}
	if err := json.Unmarshal([]byte(published.OpenAPI.Body), &doc); err != nil {
		t.Fatal(err)
	}
	for _, a := range answers {
		for path, operations := range doc.Paths {
			for method, o := range operations {
				name := strings.TrimPrefix(o.Responses[fmt.Sprint(a.status)].Ref, "#/components/responses/")
				made, ok := doc.Components.Responses[name]
				_, has := made.Content[a.media]
				if !ok || a.media != "" && !has || a.media == "" && len(made.Content) > 0 {
					t.Errorf("%s %s: %+v is not described: %q %v", method, path, a, name, made)
				}
			}
		}
	}
}

// ask sends a request with one header.
func ask(t *testing.T, to net.Addr, header string) said {
	t.Helper()
	c, err := net.Dial("tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()                                                                           //nolint:errcheck // only read
	_, _ = io.WriteString(c, "GET /health HTTP/1.1\r\nHost: localhost\r\n"+header+"\r\n\r\n") // it may be refused before its end
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("%.20s: %v", header, err)
	}
	_ = resp.Body.Close()
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return said{resp.StatusCode, media}
}
