package simulate_test

import (
	"encoding/base64"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/backends/simulate"
	"innerd/events"
)

var _ = flag.Bool("update", false, "write testdata/table.json as it was found")

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
		Copy: func(t testing.TB, _ backends.Backend) backends.Backend {
			copied := t.TempDir()
			whole, _ := filepath.Glob(filepath.Join(dir, "*.json")) // other cases write files beside them, which go again
			for _, path := range whole {
				raw, err := os.ReadFile(path)
				if err = errors.Join(err, os.WriteFile(filepath.Join(copied, filepath.Base(path)), raw, 0o600)); err != nil {
					t.Error(err)
				}
			}
			return simulate.New(&simulate.Options{StateDir: copied})
		},
		Models: [2]string{"simulate-1", "simulate-2"}, Efforts: [2]string{"low", "high"},
		Parallel: 8, Table: "testdata/table.json",
		Lacks: map[backendtest.Need]string{
			backendtest.NeedProcess:  "it lives in the server; the rows of a crash and of a restart stand for it",
			backendtest.NeedLines:    "it has no output that could be spoilt",
			backendtest.NeedLogin:    "it needs no login",
			backendtest.NeedNatives:  "its tools are those that its script names",
			backendtest.NeedRequests: "it has no model that could be asked",
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

// told reads the session from the disk, as another server would.
func (s *seat) told() simulate.Told {
	told, err := simulate.New(&simulate.Options{StateDir: s.dir}).Told(s.id)
	if err != nil {
		s.t.Errorf("Told: %v", err)
	}
	return told
}

// Heard implements backendtest.Seat.
func (s *seat) Heard() string {
	told := s.told()
	heard := []string{told.System}
	for _, e := range told.Entries {
		heard = append(heard, e.Text)
		for _, p := range e.Parts {
			heard = append(heard, p.Name, p.MimeType, p.Text, p.Data)
			if raw, err := base64.StdEncoding.DecodeString(p.Data); err == nil && p.Type != events.PartImage {
				heard = append(heard, string(raw))
			}
		}
	}
	return strings.Join(heard, "\n")
}

// Seen implements backendtest.Viewer.
func (s *seat) Seen() backendtest.Seen {
	told := s.told()
	return backendtest.Seen{Model: told.Model, Effort: told.Effort, Tools: told.Tools}
}
