//go:build linux

package push_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"innerd/adapter/a2a/push"
)

// A server that has no descriptor left for its requests does not hold it
// against who shall get them, however long that lasts.
func TestNoDescriptorsAreNoFailure(t *testing.T) {
	const giveUp = 200 * time.Millisecond
	got := make(chan struct{}, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { got <- struct{}{} }))
	t.Cleanup(receiver.Close)
	log := &said{}
	s := service(t, &store{files: map[string][]byte{}}, func(o *push.Options) {
		o.Logger, o.GiveUp, o.Backoff = slog.New(slog.NewTextHandler(log, nil)), giveUp, 50*time.Millisecond
	})
	var usual syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &usual); err != nil {
		t.Fatal(err)
	}
	set := func(l syscall.Rlimit) {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
			t.Fatal(err)
		}
	}
	set(syscall.Rlimit{Cur: 3, Max: usual.Max})
	defer set(usual)
	began := time.Now()
	create(t, s, "me", "task", "a", receiver.URL)
	tries := func() int { return strings.Count(log.String(), "too many open files") }
	waitFor(t, func() bool {
		return tries() >= 3 && time.Since(began) > 2*giveUp || strings.Contains(log.String(), "gets nothing more")
	})
	set(usual)
	select {
	case <-got:
	case <-time.After(time.Minute):
		t.Errorf("it never came:\n%s", log)
	}
}
