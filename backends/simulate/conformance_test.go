package simulate_test

import (
	"strings"
	"testing"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/backends/simulate"
)

func TestConformance(t *testing.T) {
	dir := t.TempDir()
	backend := func(testing.TB) backends.Backend {
		return simulate.New(&simulate.Options{StateDir: dir})
	}
	backendtest.Run(t, backendtest.Rig{
		Name:    simulate.Name,
		Backend: backend,
		Seat: func(t testing.TB, _ backendtest.Case) backendtest.Seat {
			return &seat{t: t, dir: dir}
		},
		Lacks: map[backendtest.Need]string{
			backendtest.NeedProcess: "it lives in the server; resume-after-crash and resume-after-restart stand for it",
			backendtest.NeedLines:   "it has no output that could be spoilt",
		},
	})
}

// seat is one conversation of a case; the script goes with the turn.
type seat struct {
	t   testing.TB
	dir string
	id  string
}

func (s *seat) Config() backends.Config {
	return backends.Config{Save: func(session backends.Session) error { s.id = session.ID; return nil }}
}

func (s *seat) Arrange(steps []backendtest.Step) backendtest.Setup {
	return backendtest.Setup{Settings: backends.Settings{Options: backendtest.Script(steps)}}
}

// Heard reads the session from the disk, as another server would.
func (s *seat) Heard() string {
	told, err := simulate.New(&simulate.Options{StateDir: s.dir}).Told(s.id)
	if err != nil {
		s.t.Errorf("Told: %v", err)
	}
	heard := []string{told.System}
	for _, e := range told.Entries {
		heard = append(heard, e.Text)
		for _, p := range e.Parts {
			heard = append(heard, p.Text, p.Data)
		}
	}
	return strings.Join(heard, "\n")
}
