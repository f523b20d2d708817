package adapter

import (
	"errors"
	"net/http"
	"strings"
)

// Mount is a part of the paths that another room serves, behind this server's
// checks of names, origins and keys. It answers for its own protocol: the
// A2A-Version of the host-loop profile says nothing there.
type Mount struct {
	Prefix  string // a path, and all below it: "/a2a"
	Handler http.Handler
	// Open says which requests need no key; nil: none. Their owner is "".
	Open func(r *http.Request) bool
	// Refuse answers a request that is not let in; nil: as everywhere.
	Refuse func(w http.ResponseWriter, r *http.Request, status int, why string)
}

// mountOf finds the mount with the longest prefix of a path.
func (s *Server) mountOf(path string) (found *Mount) {
	for i := range s.opt.Mounts {
		m := &s.opt.Mounts[i]
		if path != m.Prefix && !strings.HasPrefix(path, m.Prefix+"/") {
			continue
		}
		if found == nil || len(m.Prefix) > len(found.Prefix) {
			found = m
		}
	}
	return found
}

// serveMount lets a request into a mount, or says why not.
func (s *Server) serveMount(m *Mount, w http.ResponseWriter, r *http.Request, origins *http.CrossOriginProtection) {
	err := s.hosts.check(r)
	if err == nil && origins.Check(r) != nil {
		err = errOtherSite
	}
	if err == nil && r.Method != http.MethodOptions {
		open := m.Open != nil && m.Open(r)
		var known *http.Request
		if known, err = s.authenticate(r); err == nil && !open {
			err = s.checkRate(known)
		} else if open {
			err = nil
		}
		if err == nil {
			s.serveCounted(m, w, known)
			return
		}
	}
	if err == nil {
		w.Header().Set("Allow", "GET, HEAD, POST, DELETE, OPTIONS")
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if m.Refuse == nil {
		s.fail(w, r, err)
		return
	}
	status, _ := statusOf(err)
	var many *tooManyError
	if errors.As(err, &many) {
		many.tell(w.Header())
	}
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	m.Refuse(w, r, status, err.Error())
}

// BaseURL is where the caller of a request reached the server, with a slash at
// its end: the sandbox does not know its own outside name.
func BaseURL(r *http.Request) string { return baseURL(r) }
