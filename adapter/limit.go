package adapter

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// rates limits the calls of each key. The zero value limits nothing.
type rates struct {
	perSecond float64
	mu        sync.Mutex
	owners    map[string]*bucket // as many as there are keys
}

// bucket holds what an owner has left; it fills up to its burst.
type bucket struct {
	left float64
	at   time.Time
}

// burstSeconds of calls may come at once.
const burstSeconds = 2

func newRates(perSecond int) *rates {
	return &rates{perSecond: float64(perSecond), owners: map[string]*bucket{}}
}

// take counts a call of an owner; wait is how long it comes too early.
func (r *rates) take(owner string, now time.Time) (wait time.Duration) {
	if r.perSecond <= 0 {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	most := r.perSecond * burstSeconds
	b := r.owners[owner]
	if b == nil {
		b = &bucket{left: most, at: now}
		r.owners[owner] = b
	}
	b.left = min(most, b.left+now.Sub(b.at).Seconds()*r.perSecond)
	b.at = now
	if b.left < 1 {
		return time.Duration((1 - b.left) / r.perSecond * float64(time.Second))
	}
	b.left--
	return 0
}

// tooManyError is a call above the rate of its key.
type tooManyError struct{ wait time.Duration }

func (e *tooManyError) Error() string {
	return fmt.Sprintf("too many calls with this key; come back in %d s (--rate-limit)", e.seconds())
}

func (e *tooManyError) seconds() int { return max(1, int(math.Ceil(e.wait.Seconds()))) }

func (e *tooManyError) tell(h http.Header) { h.Set("Retry-After", strconv.Itoa(e.seconds())) }

// checkRate refuses a call above the rate of its key.
func (s *Server) checkRate(r *http.Request) error {
	if madeOf(r) {
		return nil
	}
	if wait := s.rates.take(Owner(r.Context()), time.Now()); wait > 0 {
		return &tooManyError{wait}
	}
	return nil
}

// madeOf reports whether a call is one of those that runs are made of: to start
// one, to follow it, to answer it, to cancel it. Hosts in the field give a server up for
// minutes that answers those with 429.
func madeOf(r *http.Request) bool {
	if probe(r.URL.Path) {
		return true
	}
	if r.Method != http.MethodPost {
		return strings.HasPrefix(r.URL.Path, "/tasks/") && strings.HasSuffix(r.URL.Path, "/events")
	}
	for _, p := range []string{"/message:", "/tools/", "/tasks/"} {
		if strings.HasPrefix(r.URL.Path, p) {
			return true
		}
	}
	return false
}
