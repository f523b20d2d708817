package adapter

import (
	"encoding/json"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"innerd/adapter/api"
)

// front is what every request passes before it is routed.
func (s *Server) front(next http.Handler) http.Handler {
	crossOrigin := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A deadline of the request before, on the same connection, is over.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
		s.paced(w, r)
		r, leave := s.weighed(r)
		defer leave()
		if s.opt.Places.scarce() {
			w.Header().Set("Connection", "close")
		}
		if len(r.TransferEncoding) > 0 {
			// A length may have stood beside the chunks, which net/http does not
			// tell: what another reader took for the rest of the body must not be
			// answered as a request.
			w.Header().Set("Connection", "close")
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		r, ok := tidied(r)
		if !ok {
			w.Header().Set("A2A-Version", api.Version)
			s.fail(w, r, errNoRoute)
			return
		}
		if m := s.mountOf(r.URL.Path); m != nil {
			s.serveMount(m, w, r, crossOrigin)
			return
		}
		w.Header().Set("A2A-Version", api.Version)
		if v := strings.TrimSpace(r.Header.Get("A2A-Version")); v != "" && !slices.Contains(api.SupportedVersions(), v) {
			s.refuseVersion(w, v)
			return
		}
		if err := s.hosts.check(r); err != nil {
			s.refuse(w, r, err)
			return
		}
		// A browser tells where a page comes from that calls; such a page, of
		// another site, has no business with a server that may be open.
		if err := crossOrigin.Check(r); err != nil {
			s.refuse(w, r, errOtherSite)
			return
		}
		if r.Method == http.MethodOptions {
			w.Header().Set("Allow", "GET, HEAD, POST, DELETE, OPTIONS")
			w.WriteHeader(http.StatusNoContent)
			return
		}
		r, err := s.authenticate(r)
		defer PutDown(r.Context())
		if err == nil {
			err = s.checkRate(r)
		}
		if err != nil {
			s.refuse(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// tidied gives the request with the one path that every check and every route
// then sees: without slashes at its end, since a redirect is a failure to
// hosts, and without doubled ones. A path that leads up, or nowhere, is none:
// whether it needs a key must not depend on who resolves it.
func tidied(r *http.Request) (*http.Request, bool) {
	p := r.URL.Path
	if !strings.HasPrefix(p, "/") {
		return r, p == "*" || p == "" // OPTIONS *
	}
	clean := path.Clean(p)
	if clean == p {
		return r, true
	}
	for seg := range strings.SplitSeq(p, "/") {
		if seg == "." || seg == ".." {
			return r, false
		}
	}
	r2 := *r
	r2.URL = &url.URL{}
	*r2.URL = *r.URL
	r2.URL.Path, r2.URL.RawPath = clean, ""
	return &r2, true
}

// refuseVersion answers in JSON-RPC, which is what a client that sends
// A2A-Version expects.
func (s *Server) refuseVersion(w http.ResponseWriter, v string) {
	type rpcError struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    any    `json:"data"`
	}
	writeJSON(w, http.StatusBadRequest, struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   rpcError        `json:"error"`
	}{"2.0", json.RawMessage("null"), rpcError{
		Code:    -32009,
		Message: "A2A-Version " + v + " is not supported; these are: " + strings.Join(api.SupportedVersions(), ", "),
		Data:    map[string]any{"requested": v, "supported": api.SupportedVersions()},
	}})
}
