//go:build linux

package security_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"innerd/events"
	"innerd/test/server"
)

// inside is a service of this machine that counts who asks it.
func inside(t *testing.T) (port string, asked *atomic.Int64) {
	t.Helper()
	asked = new(atomic.Int64)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/to/") {
			http.Redirect(w, r, "http://"+strings.TrimPrefix(r.URL.Path, "/to/"), http.StatusFound)
			return
		}
		asked.Add(1)
	})
	four := httptest.NewServer(h)
	t.Cleanup(four.Close)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(four.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	if l, err := net.Listen("tcp", "[::1]:"+port); err == nil { // where there is IPv6
		six := &httptest.Server{Listener: l, Config: &http.Server{Handler: h}}
		six.Start()
		t.Cleanup(six.Close)
	}
	return port, asked
}

// spellings are the ways to name what only this machine can reach.
func spellings(port string) []string {
	var out []string
	for _, host := range []string{
		"127.0.0.1", "localhost", "LOCALHOST", "localhost.", "127.0.0.1.", "127.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "017700000001", "127.0.0.0x1",
		"0.0.0.0", "0", "[::]", "[::1]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[fe80::1%25lo]", "[::1%25lo]",
		"169.254.169.254", "[fd00:ec2::254]", "[::ffff:169.254.169.254]", "10.0.0.1", "192.168.0.1", "172.17.0.1", "100.100.100.200", "168.63.129.16",
		"user@127.0.0.1", "user:pass@localhost", "example.com@127.0.0.1", "①②⑦.⓪.⓪.①", "127。0。0。1", "127.0.0.1%00.example.com",
	} {
		out = append(out, "http://"+host+":"+port+"/x")
	}
	return append(out, "file:///etc/passwd", "gopher://127.0.0.1:"+port+"/x", "ftp://127.0.0.1:"+port+"/x", "//127.0.0.1:"+port+"/x", "http:127.0.0.1:"+port+"/x", "unix:///run/x.sock", "http://", "")
}

// Attachments, cards and notifications do not reach what only this machine can,
// whatever its name is spelled like, nor by a redirect of a host that is allowed.
func TestAddressesInside(t *testing.T) {
	t.Parallel()
	port, asked := inside(t)
	friend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://"+strings.TrimPrefix(r.URL.Path, "/to/"), http.StatusFound)
	}))
	defer friend.Close()
	name := strings.TrimPrefix(friend.URL, "http://")
	s := serve(t, "--fetch-allow", name, "--discover-allow", name, "--push-allow", name)
	all := spellings(port)
	for _, to := range []string{"127.0.0.1:" + port, "localhost:" + port, "[::1]:" + port, "169.254.169.254", "0x7f000001:" + port} {
		all = append(all, friend.URL+"/to/"+to)
	}
	var images []any
	for i, url := range all {
		images = append(images, obj{"url": url, "id": fmt.Sprint(i)})
	}
	body := simulate("look", obj{"detach": true}, obj{"text": "seen"})
	body["messages"] = []any{obj{"role": "user", "content": "look", "images": images}}
	p := s.Post(t, body).Completed()
	notes := 0
	for _, st := range server.Of[events.Status](p) {
		if st.State == events.StateNotice && strings.Contains(st.Detail, "could not be loaded") {
			notes++
			if strings.Contains(st.Detail, "pass@") {
				t.Errorf("a password is shown: %s", st.Detail)
			}
		}
	}
	if notes < len(all)-1 { // an attachment with no URL at all is none
		t.Errorf("%d of %d attachments were refused:\n%s", notes, len(all), p)
	}
	for _, url := range all {
		redirected := strings.HasPrefix(url, friend.URL)
		if a := call(t, s, s.Key(), http.MethodPost, "/agents:discover", obj{"url": url}); a.status < 400 {
			t.Errorf("discover %s: %d %.200s", url, a.status, a.body)
		}
		if redirected {
			continue // it is called when there is something to say, and a redirect is an answer
		}
		a := call(t, s, s.Key(), http.MethodPost, "/a2a/tasks/"+p.TaskID()+"/pushNotificationConfigs", obj{"url": url}, "A2A-Version", "1.0")
		if a.status < 400 {
			t.Errorf("push to %s: %d %.200s", url, a.status, a.body)
		}
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("what is inside was asked %d times", n)
	}
}
