package claudecode_test

import (
	"testing"

	"innerd/backends"
	"innerd/backends/backendtest"
)

// TestConformance plays the suite on the real CLI.
func TestConformance(t *testing.T) {
	b := newBench(t)
	backendtest.Run(t, backendtest.Rig{
		Name:    "claude-code",
		Backend: func(testing.TB) backends.Backend { return governed{b.backend()} },
		Seat:    func(t testing.TB, c backendtest.Case) backendtest.Seat { return b.seat(t).noisy(c.Turns) },
		Skip: map[string]string{
			"error-internal": "no failure of a provider is the server's own: a 500 is worth another try, so it is overloaded",
		},
	})
}
