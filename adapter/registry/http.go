package registry

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"innerd/adapter/netguard"
)

const maxBody = 2 << 20

// Handler serves /agents*. owner is whose key a request was made with.
func (r *Registry) Handler(owner func(context.Context) string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("A2A-Version", "0.3.0")
		status, v, err := r.serve(w, req, owner(req.Context()))
		if err != nil {
			r.fail(w, req, err)
			return
		}
		if v == nil {
			w.WriteHeader(status)
			return
		}
		writeJSON(w, status, v)
	})
}

var (
	errNoRoute  = errors.New("no such endpoint")
	errNoMethod = errors.New("this endpoint does not know the method")
)

func (r *Registry) serve(w http.ResponseWriter, req *http.Request, owner string) (int, any, error) {
	ctx := req.Context()
	switch path := req.URL.Path; {
	case path == "/agents" && (req.Method == http.MethodGet || req.Method == http.MethodHead):
		cards := []json.RawMessage{}
		for _, a := range r.List(owner) {
			cards = append(cards, a.Card)
		}
		return http.StatusOK, map[string]any{"agents": cards}, nil
	case path == "/agents:register" && req.Method == http.MethodPost:
		raw, err := body(w, req, nil)
		if err != nil {
			return 0, nil, err
		}
		a, err := r.Register(ctx, owner, raw)
		return http.StatusOK, a.Card, err
	case path == "/agents:discover" && req.Method == http.MethodPost:
		var in struct {
			URL string `json:"url"`
		}
		if _, err := body(w, req, &in); err != nil {
			return 0, nil, err
		}
		a, err := r.Discover(ctx, owner, in.URL)
		return http.StatusOK, a.Card, err
	case path == "/agents:route" && req.Method == http.MethodPost:
		var in struct {
			Prompt string   `json:"prompt"`
			Tags   []string `json:"hint_tags"`
		}
		if _, err := body(w, req, &in); err != nil {
			return 0, nil, err
		}
		a, err := r.Route(owner, in.Prompt, in.Tags)
		return http.StatusOK, a.Card, err
	case strings.HasPrefix(path, "/agents/") && req.Method == http.MethodDelete:
		return http.StatusNoContent, nil, r.Remove(owner, strings.TrimPrefix(path, "/agents/"))
	case strings.HasPrefix(path, "/agents/") && strings.Count(path, "/") > 2:
		return 0, nil, errNoRoute
	}
	return 0, nil, errNoMethod
}

// body reads a request's JSON, into v where it is given.
func body(w http.ResponseWriter, req *http.Request, v any) (json.RawMessage, error) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxBody))
	if err != nil {
		return nil, err
	}
	if !json.Valid(raw) {
		return nil, errNotJSON
	}
	if v != nil {
		if err := json.Unmarshal(raw, v); err != nil {
			return nil, errors.Join(ErrInvalid, err)
		}
	}
	return raw, nil
}

var errNotJSON = errors.New("the body is not JSON")

func (r *Registry) fail(w http.ResponseWriter, req *http.Request, err error) {
	status, kind := http.StatusInternalServerError, "internal"
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		status, kind = http.StatusRequestEntityTooLarge, "too_large"
	case errors.Is(err, errNotJSON):
		status, kind = http.StatusBadRequest, "invalid_request"
	case errors.Is(err, netguard.ErrUnsafe), errors.Is(err, ErrInvalid):
		status, kind = http.StatusUnprocessableEntity, "invalid_request"
	case errors.Is(err, ErrFetch):
		status, kind = http.StatusBadGateway, "backend_unavailable"
	case errors.Is(err, ErrNotFound), errors.Is(err, errNoRoute):
		status, kind = http.StatusNotFound, "not_found"
	case errors.Is(err, errNoMethod):
		status, kind = http.StatusMethodNotAllowed, "unsupported"
	case errors.Is(err, ErrNone):
		status, kind = http.StatusServiceUnavailable, "backend_unavailable"
	case errors.Is(err, ErrFull):
		status, kind = http.StatusConflict, "conflict"
	default:
		if req.Context().Err() == nil {
			r.opt.Logger.Error("request failed", "method", req.Method, "path", req.URL.Path, "error", err)
		}
	}
	writeJSON(w, status, map[string]string{"detail": err.Error(), "error_type": kind})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	raw, err := json.Marshal(v)
	if err != nil {
		status, raw = http.StatusInternalServerError, []byte(`{"detail":"an answer could not be encoded","error_type":"internal"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(raw) // a reader that is gone has no use for the error
}
