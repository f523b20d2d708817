package backends_test

import (
	"fmt"
	"testing"

	"innerd/backends"
)

// TestEnded: the last ids are remembered, and not all that ever were.
func TestEnded(t *testing.T) {
	t.Parallel()
	var e backends.Ended
	if e.Has("") || e.Has("t-1") {
		t.Error("it remembers what it was never told")
	}
	e.Add("", "t-0", "t-0")
	if e.Has("") || !e.Has("t-0") {
		t.Error("it does not remember what it was told")
	}
	for i := range 5000 {
		e.Add(fmt.Sprintf("t-%d", i+1))
	}
	if e.Has("t-0") || e.Has("t-1") || !e.Has("t-4900") || !e.Has("t-5000") {
		t.Error("it remembers others than the last ones")
	}
}
