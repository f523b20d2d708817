package push_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"innerd/adapter/a2a/push"
	"innerd/adapter/a2a/spec"
	"innerd/adapter/netguard"
)

// said is a log that is written to and read at the same time.
type said struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(b)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// What can never be sent, of an older server say, is not tried, and is not the
// receiver's fault: the log says whose.
func TestIllMadeConfigurationsEnd(t *testing.T) {
	for name, c := range map[string]spec.PushConfig{
		"no URL":  {URL: "http://[::1/secret"},
		"no host": {URL: "http:///secret"},
		"token":   {URL: "http://127.0.0.1:9/secret", Token: "a\x01b"},
		"scheme":  {URL: "http://127.0.0.1:9/secret", Authentication: &spec.PushAuth{Scheme: "a\x7f", Credentials: "secret"}},
	} {
		t.Run(name, func(t *testing.T) {
			log, st := &said{}, &store{files: map[string][]byte{}}
			s := service(t, st, func(o *push.Options) {
				o.Logger, o.Backoff = slog.New(slog.NewTextHandler(log, nil)), time.Hour
			})
			c.ID, c.TaskID = "a", "task"
			if _, err := s.Create("me", c, 0); err != nil {
				t.Fatal(err)
			}
			waitFor(t, func() bool {
				return strings.Contains(st.text(), `"done":true`) || strings.Contains(log.String(), "not taken")
			})
			if got := log.String(); !strings.Contains(got, "cannot be sent") || strings.Contains(got, "not taken") || strings.Contains(got, "secret") {
				t.Error(got)
			}
		})
	}
}

// What cannot stand in a header is refused before it is kept.
func TestHeadersAreChecked(t *testing.T) {
	s := service(t, &store{files: map[string][]byte{}}, nil)
	for token, ok := range map[string]bool{"a b\tc": true, "ключ": true, "a\x01b": false, "a\x7f": false, "a\nb": false} {
		if err := s.Check(t.Context(), &spec.PushConfig{URL: "http://127.0.0.1:9/", Token: token}); (err == nil) != ok {
			t.Errorf("%q: %v", token, err)
		}
	}
}

// The log says why an address is not called, and names no URL.
func TestRefusedAddressesAreSaid(t *testing.T) {
	log := &said{}
	s := service(t, &store{files: map[string][]byte{}}, func(o *push.Options) {
		o.Logger, o.Guard = slog.New(slog.NewTextHandler(log, nil)), netguard.New(nil, "--push-allow")
	})
	create(t, s, "me", "task", "a", "http://127.0.0.1:9/secret")
	waitFor(t, func() bool { return strings.Contains(log.String(), "not taken") })
	if got := log.String(); !strings.Contains(got, "--push-allow") || strings.Contains(got, "secret") {
		t.Error(got)
	}
}

// Time in the line for a request is not the receiver's: it is tried as long as
// others, from its first request on.
func TestTheLineIsNoFailure(t *testing.T) {
	const giveUp = 2 * time.Second
	end := make(chan struct{})
	var mu sync.Mutex
	held, tries := 0, 0
	stuck := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		held++
		mu.Unlock()
		select {
		case <-r.Context().Done():
		case <-end:
		}
	}))
	t.Cleanup(stuck.Close)
	live := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if tries++; tries == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(live.Close)
	st := &store{files: map[string][]byte{}}
	s := service(t, st, func(o *push.Options) { o.GiveUp = giveUp })
	for i := range 16 { // all that may be on at once
		create(t, s, "me", fmt.Sprint("task-", i), "a", stuck.URL)
	}
	waitFor(t, func() bool { mu.Lock(); defer mu.Unlock(); return held == 16 })
	began := time.Now()
	create(t, s, "me", "task-live", "a", live.URL)
	waitFor(t, func() bool { return time.Since(began) > giveUp })
	close(end)
	waitFor(t, func() bool {
		got, _ := st.ReadFile(fileOf(t, st, "task-live"))
		return strings.Contains(string(got), `"done":true`)
	})
	mu.Lock()
	defer mu.Unlock()
	if tries != 4 { // one in vain, and the three notifications
		t.Errorf("%d requests", tries)
	}
}

func fileOf(t *testing.T, st *store, task string) string {
	t.Helper()
	files, _ := st.ReadDir("a2a/push/" + task)
	if len(files) != 1 {
		t.Fatalf("%q", files)
	}
	return "a2a/push/" + task + "/" + files[0]
}
