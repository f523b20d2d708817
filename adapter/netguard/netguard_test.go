package netguard_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"innerd/adapter/netguard"
)

func TestPublic(t *testing.T) {
	for addr, want := range map[string]bool{
		"8.8.8.8": true, "2606:4700::1111": true,
		"127.0.0.1": false, "10.0.0.1": false, "172.16.0.1": false, "192.168.1.1": false, "169.254.169.254": false, "100.64.0.1": false,
		"0.0.0.0": false, "224.0.0.1": false, "255.255.255.255": false, "192.0.2.1": false, "198.18.0.1": false, "240.0.0.1": false,
		"::": false, "::1": false, "fe80::1": false, "fc00::1": false, "ff02::1": false, "::ffff:127.0.0.1": false, "::ffff:8.8.8.8": true,
		"64:ff9b::7f00:1": false, "2002:7f00:1::": false, "::7f00:1": false, "2001:db8::1": false,
	} {
		if got := netguard.Public(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s: %v", addr, got)
		}
	}
}

func TestCheck(t *testing.T) {
	g := netguard.New([]string{"Allowed.example", "127.0.0.1:8080"}, "--push-allow")
	for url, ok := range map[string]bool{
		"https://8.8.8.8/x": true, "http://allowed.example/x": true, "http://127.0.0.1:8080/": true, "http://no.such.name.invalid/": true,
		"http://127.0.0.1:8081/": false, "http://127.0.0.1/": false, "http://localhost/": false, "gopher://8.8.8.8/": false, "//8.8.8.8/": false, "http://": false,
		"http://a:b@8.8.8.8/": false, "http://017700000001/": false, "http://127.1/": false, "http://localhost./": false, "http://a.localhost/": false, "http://①②⑦.⓪.⓪.①/": false, "http://1.2.3.0x7f/": false, "http://[fe80::1%25eth0]/": false, "http://%zz/": false,
	} {
		_, err := g.Check(t.Context(), url)
		if (err == nil) != ok || err != nil && !errors.Is(err, netguard.ErrUnsafe) {
			t.Errorf("%s: %v", url, err)
		}
		if err != nil && strings.Contains(err.Error(), "a:b") {
			t.Errorf("the error has the URL's secret: %v", err)
		}
	}
}

// The address counts that a connection is made to, whatever the name meant when
// it was looked at: a name can change between.
func TestClientChecksTheConnection(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/away" {
			http.Redirect(w, r, strings.Replace("http://"+r.Host+"/", "127.0.0.1", "localhost", 1), http.StatusFound)
		}
	}))
	defer srv.Close()
	_, port, err := net.SplitHostPort(strings.TrimPrefix(srv.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	get := func(g *netguard.Guard, redirects int, url string) (int, error) {
		resp, err := g.Client(5*time.Second, redirects).Get(url)
		if err != nil {
			return 0, err
		}
		return resp.StatusCode, resp.Body.Close()
	}
	if _, err := get(netguard.New(nil, "--x"), 0, "http://localhost:"+port+"/"); !errors.Is(err, netguard.ErrUnsafe) {
		t.Errorf("a name of this machine: %v", err)
	}
	if _, err := get(netguard.New(nil, "--x"), 0, srv.URL); !errors.Is(err, netguard.ErrUnsafe) {
		t.Errorf("its address: %v", err)
	}
	allowed := netguard.New([]string{"127.0.0.1"}, "--x")
	if code, err := get(allowed, 0, srv.URL); err != nil || code != 200 {
		t.Errorf("an allowed one: %d %v", code, err)
	}
	if code, err := get(allowed, 0, srv.URL+"/away"); err != nil || code != http.StatusFound {
		t.Errorf("a redirect that is not followed: %d %v", code, err)
	}
	if _, err := get(allowed, 3, srv.URL+"/away"); !errors.Is(err, netguard.ErrUnsafe) {
		t.Errorf("a redirect to a host that is not allowed: %v", err)
	}
}
