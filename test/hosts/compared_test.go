//go:build linux

package hosts_test

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"

	"innerd/test/contract"
)

// between are the proxies that compare, one for each server of each test.
var between = struct {
	sync.Mutex
	urls map[[2]string]string
}{urls: map[[2]string]string{}}

// compared is a URL at which a host that is a program of its own reaches a
// server, and what it is answered is compared with docs/openapi.json. What the
// server cuts, and a server that is not there, is cut for the host too. The
// field's reader is not driven through it: its tests are of when it reads, and
// this would read for it.
func compared(t testing.TB, to string) string {
	t.Helper()
	between.Lock()
	defer between.Unlock()
	at := [2]string{t.Name(), to}
	if u := between.urls[at]; u != "" {
		return u
	}
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	base := &http.Transport{DisableCompression: true, DisableKeepAlives: true} // a server that starts again may have the same address
	srv := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     contract.Transport(base, t),
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	})
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	between.urls[at] = srv.URL
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
		base.CloseIdleConnections()
		between.Lock()
		defer between.Unlock()
		delete(between.urls, at)
	})
	return srv.URL
}
