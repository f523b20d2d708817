package host_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"innerd/adapter/api"
	"innerd/host"
)

// The address is asked for at the first call, by one of many at once; also one
// that takes longer than a call may.
func TestLazyAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		c, err := host.NewLazy(func(ctx context.Context) (string, error) {
			asked.Add(1)
			time.Sleep(10 * time.Minute)
			return "http://sandbox/", nil
		}, &host.Options{Transport: &memory{}})
		if err != nil || asked.Load() != 0 || c.URL() != "" {
			t.Fatalf("%v, asked %d times, %q", err, asked.Load(), c.URL())
		}
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				if _, err := c.Health(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Go(func() { // who does not wait for it leaves
			ctx, stop := context.WithTimeout(t.Context(), time.Second)
			defer stop()
			if _, err := c.Health(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		})
		wg.Wait()
		if asked.Load() > 2 || c.URL() != "http://sandbox" { // again, where the first to ask has left
			t.Errorf("asked %d times, %q", asked.Load(), c.URL())
		}
	})
}

// A sandbox that comes back elsewhere is found there, also in a stream.
func TestLazyAddressMoves(t *testing.T) {
	f := newFake(t, hello)
	gone := newFake(t, hello)
	f.extra, gone.extra = alive(f), alive(gone)
	var at atomic.Pointer[string]
	at.Store(&gone.srv.URL)
	c, err := host.NewLazy(func(context.Context) (string, error) { return *at.Load(), nil }, &host.Options{MinBackoff: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseIdleConnections()
	if _, err := c.Health(t.Context()); err != nil {
		t.Fatal(err)
	}
	gone.srv.Close()
	at.Store(&f.srv.URL)
	var e *host.Error
	if _, err := c.Health(t.Context()); !errors.As(err, &e) || e.ErrorType != host.TypeUnreachable {
		t.Fatal(err)
	}
	if _, err := c.Health(t.Context()); err != nil {
		t.Error(err)
	}
	checkHello(t, collect(t, c.Stream(t.Context(), prompt())))
}

func TestLazyAddressFails(t *testing.T) {
	if _, err := host.NewLazy(nil, nil); err == nil {
		t.Error("no function was taken")
	}
	for url, says := range map[string]string{"": "out of sandboxes", "sandbox:18100": "not an http URL"} {
		c, err := host.NewLazy(func(context.Context) (string, error) {
			if url == "" {
				return "", errors.New("out of sandboxes")
			}
			return url, nil
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var e *host.Error
		if _, err := c.Health(t.Context()); !errors.As(err, &e) || e.ErrorType != host.TypeUnreachable || !strings.Contains(err.Error(), says) {
			t.Errorf("%v", err)
		}
		if err := lastError(t, c.Stream(t.Context(), prompt())); !errors.As(err, &e) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v", err)
		}
	}
}

func TestWaitHealthyAndReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := time.Now().Add(3 * time.Minute)
		c, err := host.New("http://sandbox", &host.Options{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			switch {
			case time.Now().Before(up.Add(-time.Minute)):
				return nil, errDial
			case time.Now().Before(up.Add(-30 * time.Second)):
				<-r.Context().Done() // it hangs while it starts
				return nil, r.Context().Err()
			case time.Now().Before(up):
				return jsonAnswer(503, api.Error{Detail: "it starts"}), nil
			}
			return jsonAnswer(200, api.Health{Status: "ok", Version: "1"}), nil
		})})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		if _, err := c.WaitHealthy(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no server at http://sandbox") {
			t.Errorf("%v", err)
		}
		if h, err := c.WaitHealthy(t.Context()); err != nil || h.Version != "1" || time.Since(up) > 10*time.Second {
			t.Errorf("%+v %v, %v late", h, err, time.Since(up))
		}
		if err := c.WaitReady(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
