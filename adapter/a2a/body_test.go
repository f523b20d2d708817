package a2a_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"innerd/runs"
)

// Whose body waits for its turn when the server stops is told that, and not that
// the body is at fault.
func TestStoppingWhileABodyWaits(t *testing.T) {
	s := served(t, &places{}, nil)
	for _, path := range []string{"/a2a", "/a2a/message:send", "/a2a/message:stream"} {
		for name, before := range map[string]string{"before it": "", "in it": `{"jsonrpc":"2.0",`} {
			body := io.MultiReader(strings.NewReader(before), iotest.ErrReader(runs.ErrDraining))
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, body)
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("A2A-Version", "1.0")
			w := httptest.NewRecorder()
			s.Handler().ServeHTTP(w, r)
			if !strings.Contains(w.Body.String(), `"UNAVAILABLE"`) || w.Header().Get("Connection") != "close" {
				t.Errorf("%s, %s: %d, %q, %s", path, name, w.Code, w.Header().Get("Connection"), w.Body)
			}
		}
	}
}
