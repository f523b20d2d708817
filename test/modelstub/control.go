package modelstub

import (
	"encoding/json"
	"net/http"
	"strings"
)

// control is for scripts that run the server as a command: it shows the
// requests and opens gates over HTTP.
func (sc *Scenario) control(w http.ResponseWriter, r *http.Request, path string) {
	gate, isGate := strings.CutPrefix(path, "release/")
	switch {
	case r.Method == http.MethodPost && isGate:
		sc.Gate(gate).Release()
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodGet && path == "requests":
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"count": sc.Count(), "requests": summaries(sc.Requests()), "side": summaries(sc.Side()),
		})
	default:
		http.NotFound(w, r)
	}
}

type summary struct {
	Kind   Kind            `json:"kind"`
	Path   string          `json:"path"`
	Model  string          `json:"model,omitempty"`
	Prompt string          `json:"prompt,omitempty"`
	Body   json.RawMessage `json:"body,omitempty"`
}

func summaries(rs []Request) []summary {
	out := []summary{}
	for i := range rs {
		s := summary{Kind: rs[i].Kind, Path: rs[i].Path, Model: rs[i].Model, Prompt: rs[i].Prompt()}
		if json.Valid(rs[i].Body) {
			s.Body = rs[i].Body
		}
		out = append(out, s)
	}
	return out
}
