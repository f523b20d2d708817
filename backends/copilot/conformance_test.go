package copilot_test

import (
	"testing"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/test/copilotscript"
)

// TestConformance plays the suite on the real CLI.
func TestConformance(t *testing.T) {
	b := newBench(t)
	backendtest.Run(t, backendtest.Rig{
		Name:    "copilot",
		Backend: func(testing.TB) backends.Backend { return governed{b.backend()} },
		Seat:    func(t testing.TB, c backendtest.Case) backendtest.Seat { return b.seat(t).of(c) },
		Share:   true, Parallel: 3,
		Models: [2]string{copilotscript.Model, "gpt-5.5"}, Efforts: [2]string{"low", "high"}, Clash: "bash",
		Skip: map[string]string{
			"error-internal": "no failure of a provider is the server's own: a 500 is worth another try, so it is overloaded",
		},
	})
}
