package adapter

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// hostSet is the names that a request over loopback may be addressed to. A web
// page can make its own name point to 127.0.0.1 and so reach a server here
// from a browser here; its name in Host gives it away. Requests that come in
// on another address are not checked: names of containers and sandboxes are
// many, and nobody but the network can bring a page there. A Host that is an
// IP address is no name that a page could own.
type hostSet struct {
	any   bool
	names map[string]bool
}

func newHostSet(extra []string) hostSet {
	s := hostSet{names: map[string]bool{"localhost": true, "host.docker.internal": true}}
	for _, h := range extra {
		h = strings.ToLower(strings.TrimSpace(h))
		if h == "*" {
			s.any = true
		}
		s.names[h] = true
	}
	return s
}

// check refuses a request that came over loopback under another's name.
func (s hostSet) check(r *http.Request) error {
	if s.any || probe(r.URL.Path) || !overLoopback(r) {
		return nil
	}
	name := strings.ToLower(hostName(r.Host))
	if name == "" || s.names[strings.TrimSuffix(name, ".")] {
		return nil
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return nil
	}
	return &refusal{"this server does not answer to the name " + name + " on loopback; name it with --allowed-host"}
}

func overLoopback(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// hostName is a Host header without port and brackets.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if name, _, ok := strings.Cut(host, "%"); ok {
		return name // an IPv6 zone
	}
	return host
}

// probe reports whether a path is one that orchestrators ask, under whatever
// name; it tells nothing that matters.
func probe(path string) bool { return path == "/health" || path == "/ready" }
