//go:build linux

package observe_test

import (
	"testing"

	"innerd/test/server"
)

// TestGarbageOfASmallServer: its heap may more than double before it is
// collected, unless GOGC says otherwise.
func TestGarbageOfASmallServer(t *testing.T) {
	const name = "go_gc_gogc_percent"
	s := server.New(t, innerd)
	s.Start()
	if got := value(scrape(t, s), name); got <= 100 {
		t.Errorf("a small heap may grow by %v %%", got)
	}
	s.Stop()
	s.Env = append(s.Env, "GOGC=70")
	s.Start()
	if got := value(scrape(t, s), name); got != 70 {
		t.Errorf("with GOGC=70 it may grow by %v %%", got)
	}
}
