package backendtest

import (
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"innerd/backends"
)

// LongEnv turns on the cases that take over a minute.
const LongEnv = "INNERD_LONG"

// Run plays every case against the rig's agent, each as a subtest. They run
// one after another, since each looks for goroutines that it left.
func Run(t *testing.T, rig Rig) {
	cases := Cases()
	checkSkips(t, rig, cases)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) { RunCase(t, rig, c) })
	}
}

func checkSkips(t *testing.T, rig Rig, cases []Case) {
	for name, why := range rig.Skip {
		if !slices.ContainsFunc(cases, func(c Case) bool { return c.Name == name }) {
			t.Errorf("the rig skips %q, which is no case", name)
		}
		if why == "" {
			t.Errorf("the rig skips %q without a reason", name)
		}
	}
}

// RunCase plays one case.
func RunCase(t testing.TB, rig Rig, c Case) {
	if c.Long && os.Getenv(LongEnv) == "" {
		t.Skipf("takes over a minute; set %s=1", LongEnv)
	}
	shared := &shared{rig: rig, t: t, backend: rig.Backend(t)}
	status := shared.backend.Probe(t.Context())
	if why := rig.lacks(c, status.Capabilities); why != "" {
		shared.close()
		t.Skipf("impossible for %s: %s", rig.Name, why)
	}
	if !status.Usable {
		t.Fatalf("%s cannot run here: %s (%s)", rig.Name, status.Why, status.Hint)
	}
	main := newPlayer(t, shared, c, "1")
	var beside *player
	if len(c.Beside) > 0 {
		beside = newPlayer(t, shared, c, "2")
	}
	before := goroutines()
	var second sync.WaitGroup
	if beside != nil {
		second.Go(func() { beside.play(c.Beside) })
	}
	main.play(c.Turns)
	second.Wait()
	main.close()
	if beside != nil {
		beside.close()
	}
	shared.close()
	checkLeft(t, before, rig.Keeps)
}

// shared is the backend, which a case may restart.
type shared struct {
	rig     Rig
	t       testing.TB
	backend backends.Backend
}

func (s *shared) close() {
	if err := s.backend.Close(s.t.Context()); err != nil {
		s.t.Errorf("Backend.Close: %v", err)
	}
}

func (s *shared) restart() {
	s.close()
	s.backend = s.rig.Backend(s.t)
}

// soon is how long something may take that takes no time by itself.
const soon = 10 * time.Second
