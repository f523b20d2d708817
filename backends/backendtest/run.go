package backendtest

import (
	"context"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"innerd/backends"
	"innerd/events"
)

// LongEnv turns on the cases that take over a minute.
const LongEnv = "INNERD_LONG"

// Run plays every case against the rig's agent, each as a subtest, and keeps
// the rig's table. Unless the rig says that several run at once, each is
// checked for goroutines that it left.
func Run(t *testing.T, rig Rig) {
	cases := Cases()
	if rig.Table != "" {
		cases = append(All(), rig.natives()...)
	}
	checkSkips(t, rig, cases)
	s := newSuite(t, rig, cases)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			if s.places != nil {
				t.Parallel()
			}
			if s.places != nil && !c.Waits {
				s.places <- struct{}{}
				defer func() { <-s.places }()
			}
			s.play(t, c)
		})
	}
}

// suite is one run of all cases.
type suite struct {
	rig    Rig
	can    backends.Capabilities
	table  *Table           // nil: none is kept
	common backends.Backend // of the cases that need none of their own; nil: each has its own
	places chan struct{}    // holds one value for each case that is played; nil: one after another
	reuse  *reuse           // nil: each case has a conversation of its own
}

func newSuite(t *testing.T, rig Rig, cases []Case) *suite {
	s := &suite{rig: rig}
	if rig.Table != "" {
		var names []string
		for _, c := range cases {
			names = append(names, c.Name)
		}
		s.table = OpenTable(t, rig.Table, rig.Name, names)
	}
	if rig.Parallel > 1 {
		s.places = make(chan struct{}, rig.Parallel)
		before := goroutines()
		t.Cleanup(func() { checkLeft(t, before, rig.Keeps) }) // after the common backend was closed
	}
	b := rig.Backend(t)
	status := b.Probe(t.Context())
	s.can = status.Capabilities
	if rig.Table != "" {
		checkCapabilities(t, rig, cases, s.can)
	}
	if !status.Usable {
		t.Fatalf("%s cannot run here: %s (%s)", rig.Name, status.Why, status.Hint)
	}
	if rig.Share {
		s.common = b
	}
	if rig.Share && rig.Reuse {
		s.reuse = &reuse{t: t}
	}
	t.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			t.Errorf("Backend.Close: %v", err)
		}
	})
	return s
}

// play plays one case and records how it went.
func (s *suite) play(t *testing.T, c Case) {
	if c.Long && os.Getenv(LongEnv) == "" && (s.table == nil || !c.Waits) {
		t.Skipf("takes over a minute; set %s=1", LongEnv)
	}
	why := s.rig.lacks(c, s.can)
	if s.table != nil {
		defer func() { s.record(t, c, why) }()
	}
	if why != "" {
		t.Skipf("impossible for %s: %s", s.rig.Name, why)
	}
	if s.reuse != nil && c.plain() {
		p := s.reuse.take(t, &shared{rig: s.rig, t: t, backend: s.common, common: true}, c)
		defer s.reuse.keep(p)
		p.play(c.Turns)
		return
	}
	before := goroutines()
	runCase(t, s.rig, c, s.common)
	if s.places == nil {
		checkLeft(t, before, s.rig.Keeps)
	}
}

func (s *suite) record(t *testing.T, c Case, why string) {
	if but := s.rig.but(c); but != "" && why == "" && !t.Failed() {
		s.table.But(c.Name, but, c.Long)
		return
	}
	s.table.Ended(t, c.Name, why, c.Long)
}

func checkSkips(t *testing.T, rig Rig, cases []Case) {
	if rig.Table != "" && len(rig.Natives) == 0 && rig.Lacks[NeedNatives] == "" {
		t.Error("the rig lists none of the agent's own tools, and does not say why")
	}
	for name := range rig.But {
		if !slices.ContainsFunc(cases, func(c Case) bool { return c.Name == name }) {
			t.Errorf("the rig has a but for %q, which is no case", name)
		}
	}
	for name, why := range rig.Skip {
		if !slices.ContainsFunc(cases, func(c Case) bool { return c.Name == name }) {
			t.Errorf("the rig skips %q, which is no case", name)
		}
		if why == "" {
			t.Errorf("the rig skips %q without a reason", name)
		}
	}
}

// checkCapabilities: what a backend says of itself is what its table says. A
// case that needs what it cannot is skipped, so that only the reverse is left:
// that it says it can and its rig lacks it, or skips all of it.
func checkCapabilities(t testing.TB, rig Rig, cases []Case, can backends.Capabilities) {
	for need, can := range capabilities(can) {
		if why := rig.Lacks[need]; can && why != "" {
			t.Errorf("the capabilities say %s, the rig lacks it: %s", need, why)
		} else if !can && why == "" {
			t.Errorf("the capabilities say that there is no %s, and the rig does not say why", need)
		}
		tried := slices.ContainsFunc(cases, func(c Case) bool {
			return slices.Contains(c.Needs, need) && rig.Skip[c.Name] == ""
		})
		if can && !tried {
			t.Errorf("the capabilities say %s, the rig skips all cases of it", need)
		}
	}
}

// RunCase plays one case with a backend of its own.
func RunCase(t testing.TB, rig Rig, c Case) {
	if c.Long && os.Getenv(LongEnv) == "" {
		t.Skipf("takes over a minute; set %s=1", LongEnv)
	}
	b := rig.Backend(t)
	why := rig.lacks(c, b.Probe(t.Context()).Capabilities)
	if err := b.Close(t.Context()); err != nil {
		t.Errorf("Backend.Close: %v", err)
	}
	if why != "" {
		t.Skipf("impossible for %s: %s", rig.Name, why)
	}
	before := goroutines()
	runCase(t, rig, c, nil)
	checkLeft(t, before, rig.Keeps)
}

// runCase plays one case, on the common backend if there is one and the case
// does nothing to it that others would feel.
func runCase(t testing.TB, rig Rig, c Case, common backends.Backend) {
	shared := &shared{rig: rig, t: t}
	switch {
	case c.LoggedOut:
		shared.backend = loggedOut(t, rig)
	case common != nil && !c.own():
		shared.backend, shared.common = common, true
	default:
		shared.backend = rig.Backend(t)
	}
	main := newPlayer(t, shared, c, "1")
	var beside *player
	if len(c.Beside) > 0 {
		beside = newPlayer(t, shared, c, "2")
	}
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
	if !shared.common {
		shared.close()
	}
}

// loggedOut makes a backend without a key or a login, which must say so.
func loggedOut(t testing.TB, rig Rig) backends.Backend {
	if rig.LoggedOut == nil {
		t.Fatalf("the rig of %s can't log out, and does not say why", rig.Name)
	}
	b := rig.LoggedOut(t)
	s := b.Probe(t.Context())
	if s.Usable || s.ErrorType != events.ErrAuth || s.Why == "" || s.Hint == "" {
		t.Errorf("without a login, Probe says %+v; want that it is not usable, error type auth, why, and what to do", s)
	}
	return b
}

// own reports whether a case does to its backend what others would feel.
func (c Case) own() bool {
	for _, t := range append(slices.Clone(c.Turns), c.Beside...) {
		switch t.Before {
		case BeforeKill, BeforeRestart, BeforeCopy:
			return true
		}
	}
	return c.LoggedOut || c.Uses(func(s Step) bool { return s.Crash != nil || s.Noise != "" })
}

// shared is the backend, which a case may restart.
type shared struct {
	rig     Rig
	t       testing.TB
	backend backends.Backend
	common  bool // it belongs to other cases too
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

// copy goes on with a copy of the agent home.
func (s *shared) copy() {
	if s.rig.Copy == nil {
		s.t.Fatalf("the rig of %s can't copy an agent home, and does not say why", s.rig.Name)
	}
	s.close()
	s.backend = s.rig.Copy(s.t, s.backend)
}

// soon is how long something may take that takes no time by itself.
const soon = 20 * time.Second

// fadesIn is how long what has ended may still be seen: below what any command
// of a case would take by itself.
const fadesIn = 10 * time.Second
