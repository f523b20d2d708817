package proc_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"innerd/backends/internal/proc"
)

var errNoDescriptor = errors.New("no descriptor is left")

// nobody is above the highest number that a process may have.
const nobody = 1 << 23

// A sweep whose time is over says what its last look found, and nothing of what
// came and went on a busy machine while it looked.
func TestSweepWhoseTimeIsOver(t *testing.T) {
	for name, c := range map[string]struct {
		look func(n int) ([]int, bool, error)
		left []int
		ok   bool
	}{
		"nothing":               {func(int) ([]int, bool, error) { return nil, true, nil }, nil, true},
		"only in doubt":         {func(int) ([]int, bool, error) { return nil, false, nil }, nil, true},
		"found, then in doubt":  {func(n int) ([]int, bool, error) { return []int{nobody}[min(n, 1):], false, nil }, nil, true},
		"found each time":       {func(int) ([]int, bool, error) { return []int{nobody}, false, nil }, []int{nobody}, false},
		"nothing can be known":  {func(int) ([]int, bool, error) { return nil, false, errNoDescriptor }, nil, false},
		"found, then not known": {func(n int) ([]int, bool, error) { return []int{nobody}[min(n, 1):], false, errorFrom(n, 1) }, []int{nobody}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond) // fewer looks than may be in doubt
				defer cancel()
				n := -1
				err := proc.Sweep(ctx, func() ([]int, bool, error) { n++; return c.look(n) })
				var left *proc.LeftError
				if errors.As(err, &left) == c.ok || err == nil != c.ok {
					t.Fatalf("it ended with %v", err)
				}
				if left != nil && !slices.Equal(left.PIDs, c.left) {
					t.Errorf("left: %v, want %v", left.PIDs, c.left)
				}
			})
		})
	}
}

// errorFrom is an error from the n-th look on.
func errorFrom(n, from int) error {
	if n < from {
		return nil
	}
	return errNoDescriptor
}
