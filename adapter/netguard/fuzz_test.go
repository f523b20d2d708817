package netguard_test

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"innerd/adapter/netguard"
	"innerd/test/mutate"
)

// FuzzCheck: a URL with an address in it that passes has a public one, and one
// that passes at all has a host that can be nothing but a name or an address.
func FuzzCheck(f *testing.F) {
	for _, s := range []string{"127.0.0.1", "8.8.8.8", "[::1]", "[::ffff:10.0.0.1]", "0x7f.1", "1.2.3.4:80", "[fe80::1%25eth0]", "[2606:4700::1]:443", "a@8.8.8.8", "017700000001", "%31%32%37.0.0.1", "127.0.0.1.", "8.8.8.8#@127.0.0.1", "8.8.8.8\\@127.0.0.1"} {
		f.Add(s)
		for bad := range mutate.Bytes([]byte(s), 30) {
			f.Add(string(bad))
		}
	}
	g := netguard.New(nil, "--x")
	f.Fuzz(func(t *testing.T, host string) {
		raw := "http://" + host + "/"
		u, err := url.Parse(raw)
		if err != nil || strings.ContainsFunc(u.Hostname(), func(r rune) bool { return r >= 'g' && r <= 'z' || r >= 'G' && r <= 'Z' }) {
			return // a name: it is not asked for here
		}
		got, err := g.Check(t.Context(), raw)
		if err != nil {
			return
		}
		a, err := netip.ParseAddr(got.Hostname())
		if err == nil && !netguard.Public(a) {
			t.Fatalf("%q passes", raw)
		}
		if got.User != nil || got.Scheme != "http" && got.Scheme != "https" {
			t.Fatalf("%q passes as %s", raw, got)
		}
	})
}
