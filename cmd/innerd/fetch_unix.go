//go:build linux || darwin

package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"innerd/events"
)

const fetchTimeout = 30 * time.Second

// fetcher loads attachments that a host names by URL. Addresses that are not
// public are refused, whatever name or redirect leads there, but for hosts that
// are allowed by name: a prompt must not reach what only this machine can.
type fetcher struct {
	public  *http.Client
	private *http.Client // for allowed hosts
	allow   []string
	max     int64
}

func newFetcher(allow []string, maxBytes int64) *fetcher {
	f := &fetcher{max: maxBytes}
	for _, h := range allow {
		f.allow = append(f.allow, strings.ToLower(h))
	}
	f.public = f.client(func(_, address string, _ syscall.RawConn) error {
		ap, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		if !publicAddr(ap.Addr()) {
			return fmt.Errorf("%s is not a public address; allow its host with --fetch-allow", ap.Addr())
		}
		return nil
	})
	f.private = f.client(nil)
	return f
}

// client makes a client whose every connection passes check, after the name
// was looked up. It uses no proxy, which would look names up itself.
func (f *fetcher) client(check func(network, address string, c syscall.RawConn) error) *http.Client {
	d := &net.Dialer{Timeout: 10 * time.Second, Control: check}
	return &http.Client{
		Timeout:   fetchTimeout,
		Transport: &http.Transport{DialContext: d.DialContext, DisableKeepAlives: true},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			switch {
			case len(via) >= 10:
				return errors.New("too many redirects")
			case f.allowed(r.URL) != f.allowed(via[0].URL):
				return errors.New("redirects between allowed and other hosts are not followed")
			}
			return httpURL(r.URL)
		},
	}
}

func (f *fetcher) allowed(u *url.URL) bool {
	return slices.Contains(f.allow, strings.ToLower(u.Hostname())) || slices.Contains(f.allow, strings.ToLower(u.Host))
}

func httpURL(u *url.URL) error {
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return fmt.Errorf("%q is not an http URL", u.Redacted())
	}
	return nil
}

// publicAddr reports whether an address is one of the internet.
func publicAddr(a netip.Addr) bool {
	a = a.Unmap()
	if !a.IsGlobalUnicast() || a.IsPrivate() {
		return false
	}
	return !slices.ContainsFunc(notPublic, func(p netip.Prefix) bool { return p.Contains(a) })
}

// notPublic is what IsPrivate does not know: shared address space, networks of
// protocols, documentation and tests, and IPv6 that wraps IPv4.
var notPublic = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2001::/23"),
	netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("fec0::/10"),
}

// part loads a part's URL: what comes back has Data in its place.
func (f *fetcher) part(ctx context.Context, p events.Part) (events.Part, error) {
	u, err := url.Parse(p.URL)
	if err != nil {
		return p, err
	}
	if err := httpURL(u); err != nil {
		return p, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL, nil)
	if err != nil {
		return p, err
	}
	client := f.public
	if f.allowed(u) {
		client = f.private
	}
	resp, err := client.Do(req)
	if err != nil {
		return p, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return p, fmt.Errorf("the answer is %s", resp.Status)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, f.max+1))
	if err != nil {
		return p, err
	}
	if int64(len(data)) > f.max {
		return p, fmt.Errorf("longer than %d bytes", f.max)
	}
	p.URL, p.Data = "", base64.StdEncoding.EncodeToString(data)
	if t, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err == nil && (p.MimeType == "" || f.better(t, p.Type)) {
		p.MimeType = t
	}
	return p, nil
}

// better reports whether the server's type of the bytes fits the kind of part,
// so that it is believed rather than the default of that kind.
func (f *fetcher) better(mimeType, kind string) bool {
	return strings.HasPrefix(mimeType, kind+"/")
}
