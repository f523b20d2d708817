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

// route is one method of one path. do gives the status and the answer, nil
// where there is none.
type route struct {
	method, path string
	do           func(r *Registry, w http.ResponseWriter, req *http.Request, owner string) (int, any, error)
}

// one is the path of one agent, whose name is what follows.
const one = "/agents/{name}"

var routes = []route{
	{http.MethodGet, "/agents", (*Registry).getList},
	{http.MethodHead, "/agents", (*Registry).getList},
	{http.MethodPost, "/agents:register", (*Registry).postRegister},
	{http.MethodPost, "/agents:discover", (*Registry).postDiscover},
	{http.MethodPost, "/agents:route", (*Registry).postRoute},
	{http.MethodDelete, one, (*Registry).deleteOne},
}

func (r *Registry) serve(w http.ResponseWriter, req *http.Request, owner string) (int, any, error) {
	path := req.URL.Path
	if strings.HasPrefix(path, "/agents/") {
		path = one
	}
	for _, to := range routes {
		if to.method == req.Method && to.path == path {
			return to.do(r, w, req, owner)
		}
	}
	if strings.Count(req.URL.Path, "/") > 2 {
		return 0, nil, errNoRoute
	}
	return 0, nil, errNoMethod
}

func (r *Registry) getList(_ http.ResponseWriter, _ *http.Request, owner string) (int, any, error) {
	cards := []json.RawMessage{}
	for _, a := range r.List(owner) {
		cards = append(cards, a.Card)
	}
	return http.StatusOK, map[string]any{"agents": cards}, nil
}

func (r *Registry) postRegister(w http.ResponseWriter, req *http.Request, owner string) (int, any, error) {
	raw, err := body(w, req, nil)
	if err != nil {
		return 0, nil, err
	}
	a, err := r.Register(req.Context(), owner, raw)
	return http.StatusOK, a.Card, err
}

func (r *Registry) postDiscover(w http.ResponseWriter, req *http.Request, owner string) (int, any, error) {
	var in struct {
		URL string `json:"url"`
	}
	if _, err := body(w, req, &in); err != nil {
		return 0, nil, err
	}
	a, err := r.Discover(req.Context(), owner, in.URL)
	return http.StatusOK, a.Card, err
}

func (r *Registry) postRoute(w http.ResponseWriter, req *http.Request, owner string) (int, any, error) {
	var in struct {
		Prompt string   `json:"prompt"`
		Tags   []string `json:"hint_tags"`
	}
	if _, err := body(w, req, &in); err != nil {
		return 0, nil, err
	}
	a, err := r.Route(owner, in.Prompt, in.Tags)
	return http.StatusOK, a.Card, err
}

func (r *Registry) deleteOne(_ http.ResponseWriter, req *http.Request, owner string) (int, any, error) {
	return http.StatusNoContent, nil, r.Remove(owner, strings.TrimPrefix(req.URL.Path, "/agents/"))
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

// statuses are what errors are answered as.
var statuses = []struct {
	err    error
	status int
	kind   string
}{
	{errNotJSON, http.StatusBadRequest, "invalid_request"},
	{netguard.ErrUnsafe, http.StatusUnprocessableEntity, "invalid_request"},
	{ErrInvalid, http.StatusUnprocessableEntity, "invalid_request"},
	{ErrFetch, http.StatusBadGateway, "backend_unavailable"},
	{ErrNotFound, http.StatusNotFound, "not_found"},
	{errNoRoute, http.StatusNotFound, "not_found"},
	{errNoMethod, http.StatusMethodNotAllowed, "unsupported"},
	{ErrNone, http.StatusServiceUnavailable, "backend_unavailable"},
	{ErrFull, http.StatusConflict, "conflict"},
}

func statusOf(err error) (status int, kind string) {
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return http.StatusRequestEntityTooLarge, "too_large"
	}
	for _, c := range statuses {
		if errors.Is(err, c.err) {
			return c.status, c.kind
		}
	}
	return http.StatusInternalServerError, "internal"
}

func (r *Registry) fail(w http.ResponseWriter, req *http.Request, err error) {
	status, kind := statusOf(err)
	if status == http.StatusInternalServerError && req.Context().Err() == nil {
		r.opt.Logger.Error("request failed", "method", req.Method, "path", req.URL.Path, "error", err)
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
