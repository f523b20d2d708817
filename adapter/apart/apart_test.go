package apart_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"innerd/adapter/apart"
)

// panicked is what Do panics with.
func panicked(f func()) (v any) {
	defer func() { v = recover() }()
	apart.Do(f)
	return nil
}

func faulty() { panic("a fault") }

// A log that tells of a panic must say where it was, and what ends an answer on
// purpose must stay that.
func TestPanics(t *testing.T) {
	if said := fmt.Sprint(panicked(faulty)); !strings.HasPrefix(said, "a fault") || !strings.Contains(said, "apart_test.faulty") {
		t.Errorf("it says %q", said)
	}
	if v := panicked(func() { panic(http.ErrAbortHandler) }); v != http.ErrAbortHandler {
		t.Errorf("%v", v)
	}
	if v := panicked(func() {}); v != nil {
		t.Errorf("%v", v)
	}
}
