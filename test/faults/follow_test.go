//go:build linux

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"innerd/test/ledger"
)

// goBuild builds innerd in a way of a test's own.
func goBuild(t testing.TB, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	args = append(append([]string{"build", "-tags", "nomsgpack"}, args...), "innerd/cmd/innerd")
	if out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil {
		t.Fatalf("go %v: %v\n%s", args, err, out)
	}
}

// Two hundred followers come and go at random, some of them in the middle of a
// frame, some without a word, some reading slowly. Each has everything in the end.
func TestFollowersThatComeAndGo(t *testing.T) {
	t.Parallel()
	// The race detector says what it finds on stderr, where the rig looks.
	binary := filepath.Join(t.TempDir(), "innerd-race")
	goBuild(t, "-race", "-o", binary)
	both(t, func(t *testing.T, c *cast) {
		r := c.rig(t)
		r.Binary = binary
		r.start()
		began := time.Now()
		seconds, rate := c.many(pick(5, 60), pick(3, 60)), pick(40, 100)
		var acts []act
		for range seconds {
			acts = append(acts, think("hm"), paced(rate, 12, rate), lists())
		}
		p := c.actor(t, r).does(t, nil, acts...)
		task := p.TaskID()
		l := ledger.New()
		var all []*reading
		for i := range 200 {
			to := l.Reader(fmt.Sprintf("follower %d", i)).Whole()
			all = append(all, read(t, to, func(ctx context.Context) error { return r.wander(ctx, to, task) }))
		}
		for _, f := range all {
			f.clean()
		}
		p.Completed()
		taped(l, "the POST", p).Whole()
		c.result(t, fmt.Sprintf("200 followers that come and go for %d s, server under -race", seconds), r.compare(l, task), began)
	})
}

// wander follows a run for random times, from where it was, until its end.
func (r *rig) wander(ctx context.Context, to *ledger.Reader, task string) error {
	for {
		some, leave := context.WithTimeout(ctx, rand.N(3*time.Second))
		stream, err := r.open(some, *r.addr.Load(), task, to.Last())
		if err == nil {
			err = to.Read(stream)
			_ = stream.Close() // only read
		}
		leave()
		switch {
		case err == nil || errors.Is(err, errOver):
			return nil
		case ctx.Err() != nil:
			return err
		}
	}
}
