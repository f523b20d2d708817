package push_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"innerd/adapter/a2a/push"
	"innerd/adapter/a2a/spec"
	"innerd/adapter/netguard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// store keeps files in memory.
type store struct {
	mu    sync.Mutex
	files map[string][]byte
}

func (s *store) WriteFile(rel string, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[rel] = data
	return nil
}
func (s *store) PutFile(rel string, data []byte) error { return s.WriteFile(rel, data) }

func (s *store) ReadFile(rel string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if data, ok := s.files[rel]; ok {
		return data, nil
	}
	return nil, errors.New("none")
}

func (s *store) RemoveAll(rel string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.files {
		if name == rel || strings.HasPrefix(name, rel+"/") {
			delete(s.files, name)
		}
	}
	return nil
}

func (s *store) ReadDir(rel string) (out []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := map[string]bool{}
	for name := range s.files {
		rest, ok := strings.CutPrefix(name, rel+"/")
		if first, _, _ := strings.Cut(rest, "/"); ok && !seen[first] {
			seen[first] = true
			out = append(out, first)
		}
	}
	return out, nil
}

func (s *store) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for name, data := range s.files {
		out = append(out, path.Base(name)+" "+string(data))
	}
	return strings.Join(out, "\n")
}

// feed has so many notifications.
type feed struct{ at, n int64 }

func (f *feed) Next(context.Context) ([]byte, int64, error) {
	if f.at == f.n {
		return nil, 0, io.EOF
	}
	f.at++
	return fmt.Appendf(nil, "%d", f.at), f.at, nil
}
func (f *feed) Close() {}

// service delivers three notifications of every task.
func service(t *testing.T, st *store, change func(*push.Options)) *push.Service {
	t.Helper()
	opt := push.Options{Guard: netguard.New([]string{"127.0.0.1"}, "--push-allow"), Logger: slog.New(slog.DiscardHandler), Backoff: time.Millisecond}
	if change != nil {
		change(&opt)
	}
	s, err := push.New(opt, func(_ context.Context, _, _ string, after int64) (push.Feed, error) { return &feed{after, 3}, nil })
	if err != nil {
		t.Fatal(err)
	}
	s.Start(st, func(string, string) bool { return true })
	t.Cleanup(s.Close)
	return s
}

func create(t *testing.T, s *push.Service, owner, task, id, url string) {
	t.Helper()
	if _, err := s.Create(owner, spec.PushConfig{ID: id, TaskID: task, URL: url}, 0); err != nil {
		t.Fatal(err)
	}
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not come about")
		}
	}
}

// dead is a receiver that refuses some requests and then takes others and never
// answers. asked counts them.
func dead(t *testing.T, refuses int) (url string, asked func() int) {
	t.Helper()
	var mu sync.Mutex
	n, end := 0, make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		n++
		refused := n <= refuses
		mu.Unlock()
		if refused {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		select {
		case <-r.Context().Done():
		case <-end:
		}
	}))
	t.Cleanup(srv.Close)
	t.Cleanup(func() { close(end) })
	return srv.URL, func() int { mu.Lock(); defer mu.Unlock(); return n }
}

// One owner's receivers that answer nothing keep another owner's from nothing.
func TestReceiversOfOthersDoNotWait(t *testing.T) {
	got := make(chan string, 8)
	live := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- string(body)
	}))
	t.Cleanup(live.Close)
	url, asked := dead(t, 0)
	s := service(t, &store{files: map[string][]byte{}}, nil)
	for i := range 64 {
		create(t, s, "bad", fmt.Sprint("task-", i), "a", url)
	}
	waitFor(t, func() bool { return asked() >= 16 }) // all that it may have at once
	create(t, s, "good", "task-good", "a", live.URL)
	for i := range 3 {
		if text := <-got; text != fmt.Sprint(i+1) {
			t.Errorf("%q", text)
		}
	}
	if n := asked(); n > 16 {
		t.Errorf("%d requests at once of one owner", n)
	}
}

// Nor do those whose last request failed keep its own others from theirs.
func TestReceiversThatFailStandApart(t *testing.T) {
	got := make(chan string, 8)
	live := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- string(body)
	}))
	t.Cleanup(live.Close)
	url, asked := dead(t, 1)
	s := service(t, &store{files: map[string][]byte{}}, nil)
	create(t, s, "me", "task-first", "a", url)
	waitFor(t, func() bool { return asked() == 2 }) // once in vain, and again
	for i := range 64 {
		create(t, s, "me", fmt.Sprint("task-", i), "a", url)
	}
	waitFor(t, func() bool { return asked() >= 9 })
	create(t, s, "me", "task-good", "a", live.URL)
	for i := range 3 {
		if text := <-got; text != fmt.Sprint(i+1) {
			t.Errorf("%q", text)
		}
	}
	if n := asked(); n > 9 {
		t.Errorf("%d requests at once to a place that fails", n-1)
	}
}

// A receiver that wants nothing more, or is deleted while it is called, says
// nothing against the place where it is.
func TestReceiversThatAreGoneDoNotFail(t *testing.T) {
	var mu sync.Mutex
	asked, end := map[string]int{}, make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked[r.URL.Path]++
		mu.Unlock()
		if r.URL.Path == "/gone" {
			w.WriteHeader(http.StatusGone)
			return
		}
		select {
		case <-r.Context().Done():
		case <-end:
		}
	}))
	t.Cleanup(srv.Close)
	t.Cleanup(func() { close(end) })
	calls := func(path string) int { mu.Lock(); defer mu.Unlock(); return asked[path] }
	st := &store{files: map[string][]byte{}}
	s := service(t, st, nil)
	create(t, s, "me", "task-gone", "a", srv.URL+"/gone")
	waitFor(t, func() bool { return strings.Contains(st.text(), `"done":true`) })
	create(t, s, "me", "task-deleted", "a", srv.URL+"/deleted")
	waitFor(t, func() bool { return calls("/deleted") == 1 })
	if err := s.Delete("me", "task-deleted", "a"); err != nil {
		t.Fatal(err)
	}
	for i := range 32 {
		create(t, s, "me", fmt.Sprint("task-", i), "a", srv.URL+"/other")
	}
	waitFor(t, func() bool { return calls("/other") == 16 }) // all that those that take may have
}

// A receiver that takes nothing is not tried for ever, also not after a restart.
func TestReceiversAreGivenUp(t *testing.T) {
	var mu sync.Mutex
	n := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		n++
		mu.Unlock()
		w.WriteHeader(http.StatusInternalServerError)
	}))
	t.Cleanup(srv.Close)
	st := &store{files: map[string][]byte{}}
	s := service(t, st, func(o *push.Options) { o.GiveUp = 2 * time.Second })
	create(t, s, "me", "task", "a", srv.URL)
	waitFor(t, func() bool { return strings.Contains(st.text(), `"done":true`) })
	s.Close()
	mu.Lock()
	tries := n
	mu.Unlock()
	if tries < 2 {
		t.Errorf("%d tries", tries)
	}
	again := service(t, st, nil)
	again.Close()
	mu.Lock()
	defer mu.Unlock()
	if n != tries {
		t.Errorf("%d tries more after a restart", n-tries)
	}
}

// slowFeed ends, whatever its context says, when it is let go.
type slowFeed struct {
	on, ended, goOn chan struct{}
}

func (f slowFeed) Next(ctx context.Context) ([]byte, int64, error) {
	f.on <- struct{}{}
	<-ctx.Done()
	close(f.ended)
	<-f.goOn
	return nil, 0, io.EOF
}
func (f slowFeed) Close() {}

// What was deleted, or replaced, while its delivery was on does not come back
// with the server's end.
func TestWhatIsDeletedStaysDeleted(t *testing.T) {
	for _, replace := range []bool{false, true} {
		goOn := make(chan struct{})
		newFeed := func() slowFeed { return slowFeed{make(chan struct{}, 1), make(chan struct{}), goOn} }
		feeds := map[string]slowFeed{"task": newFeed(), "other": newFeed()}
		st := &store{files: map[string][]byte{}}
		s, err := push.New(push.Options{Guard: netguard.New(nil, ""), Logger: slog.New(slog.DiscardHandler)}, func(_ context.Context, _, task string, after int64) (push.Feed, error) {
			if f, ok := feeds[task]; ok && after == 0 {
				return f, nil
			}
			return &feed{3, 3}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		s.Start(st, func(string, string) bool { return true })
		create(t, s, "me", "task", "a", "https://example.com/old")
		create(t, s, "me", "other", "a", "https://example.com/other")
		<-feeds["task"].on
		<-feeds["other"].on
		if replace {
			if _, err := s.Create("me", spec.PushConfig{ID: "a", TaskID: "task", URL: "https://example.com/new"}, 1); err != nil {
				t.Fatal(err)
			}
		} else if err := s.Delete("me", "task", "a"); err != nil {
			t.Fatal(err)
		}
		closed := make(chan struct{})
		go func() { s.Close(); close(closed) }() // ends with the deliveries
		<-feeds["other"].ended                   // the service ends
		close(goOn)
		<-closed
		got := st.text()
		if strings.Contains(got, "/old") || strings.Contains(got, "/new") != replace {
			t.Errorf("replaced %v: %s", replace, got)
		}
	}
}
