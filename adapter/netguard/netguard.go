// Package netguard lets a server call addresses that somebody else chose
// without reaching what only this machine can: URLs of webhooks and of other
// agents' cards.
//
// The address is checked when the connection is made, after the name was
// looked up: a name that meant something else a moment before, or a redirect,
// leads nowhere else.
package netguard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"
)

// ErrUnsafe is what a URL is refused with; the text says why.
var ErrUnsafe = errors.New("unsafe URL")

// Guard decides where calls may go. Its methods may be called at the same time.
type Guard struct {
	allow []string
	flag  string
}

// New makes a guard. allow are hosts, as name, address or host:port, that may
// have private addresses; flag is how a user names more of them.
func New(allow []string, flag string) *Guard {
	g := &Guard{flag: flag}
	for _, h := range allow {
		if h = strings.ToLower(strings.TrimSpace(h)); h != "" {
			g.allow = append(g.allow, h)
		}
	}
	return g
}

func (g *Guard) allowed(host, port string) bool {
	host = strings.ToLower(host)
	return slices.Contains(g.allow, host) || slices.Contains(g.allow, net.JoinHostPort(host, port))
}

func (g *Guard) allowedURL(u *url.URL) bool {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return g.allowed(u.Hostname(), port)
}

// Check reads a URL and refuses one that could not be called: another scheme,
// a user name in it, or a host of which any address is not public. A name that
// can't be looked up now passes; the connection is checked again.
func (g *Guard) Check(ctx context.Context, raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: it cannot be read", ErrUnsafe) // its text may hold a secret
	}
	if err := checkScheme(u); err != nil {
		return nil, err
	}
	if g.allowedURL(u) {
		return u, nil
	}
	if local(u.Hostname()) {
		return nil, fmt.Errorf("%w: %s is this machine; allow the host with %s", ErrUnsafe, u.Hostname(), g.flag)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
	if err != nil {
		return u, nil
	}
	for _, a := range addrs {
		if !Public(a) {
			return nil, g.refuse(u.Hostname(), a)
		}
	}
	return u, nil
}

func (g *Guard) refuse(host string, a netip.Addr) error {
	return fmt.Errorf("%w: %s is at %s, which is not a public address; allow the host with %s", ErrUnsafe, host, a, g.flag)
}

func checkScheme(u *url.URL) error {
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("%w: the scheme must be http or https", ErrUnsafe)
	case u.Hostname() == "":
		return fmt.Errorf("%w: there is no host in it", ErrUnsafe)
	case oddNumber(u.Hostname()):
		return fmt.Errorf("%w: the host is an address in a spelling that is not supported", ErrUnsafe)
	case strings.ContainsFunc(u.Hostname(), func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return fmt.Errorf("%w: the host has characters that a name cannot have; write an international one in its ASCII form", ErrUnsafe)
	case u.User != nil:
		return fmt.Errorf("%w: a user name in a URL is not supported", ErrUnsafe)
	}
	return nil
}

// local reports whether a name is kept for this machine, whoever resolves it.
func local(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// oddNumber reports whether a host is a number that some resolvers take for an
// IPv4 address: 2130706433, 0x7f.1, 0177.0.0.1.
func oddNumber(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return false
	}
	last := strings.TrimSuffix(host, ".")
	last = strings.ToLower(last[strings.LastIndexByte(last, '.')+1:])
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return last != "" && strings.Trim(last, "0123456789") == ""
}

// Client makes a client whose every connection is checked. It uses no proxy,
// which would look names up itself. redirects is how many are followed, each
// checked; 0: a redirect is the answer.
func (g *Guard) Client(timeout time.Duration, redirects int) *http.Client {
	plain := &net.Dialer{Timeout: 10 * time.Second}
	return &http.Client{
		Timeout: timeout,
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				host, port, err := net.SplitHostPort(address)
				if err != nil {
					return nil, err
				}
				if g.allowed(host, port) {
					return plain.DialContext(ctx, network, address)
				}
				guarded := &net.Dialer{Timeout: 10 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
					ap, err := netip.ParseAddrPort(address)
					if err == nil && !Public(ap.Addr()) {
						err = g.refuse(host, ap.Addr())
					}
					return err
				}}
				return guarded.DialContext(ctx, network, address)
			},
			MaxIdleConnsPerHost: 1, IdleConnTimeout: 30 * time.Second, TLSHandshakeTimeout: 10 * time.Second,
		},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			switch {
			case redirects == 0:
				return http.ErrUseLastResponse
			case len(via) > redirects:
				return fmt.Errorf("%w: more than %d redirects", ErrUnsafe, redirects)
			case g.allowedURL(r.URL) != g.allowedURL(via[0].URL):
				return fmt.Errorf("%w: a redirect between allowed and other hosts", ErrUnsafe)
			}
			return checkScheme(r.URL)
		},
	}
}

// Public reports whether an address is one of the internet.
func Public(a netip.Addr) bool {
	a = a.Unmap()
	if !a.IsGlobalUnicast() || a.IsPrivate() || a.Zone() != "" {
		return false
	}
	return !slices.ContainsFunc(notPublic, func(p netip.Prefix) bool { return p.Contains(a) })
}

// notPublic is what IsPrivate does not know: shared address space, networks of
// protocols, documentation and tests, and IPv6 that wraps IPv4.
var notPublic = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("192.88.99.0/24"), netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2001::/23"),
	netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("fec0::/10"),
	netip.MustParsePrefix("::/96"),
	netip.MustParsePrefix("168.63.129.16/32"), // Azure's own service inside each of its machines
}
