package codex_test

import (
	"testing"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/test/codexscript"
)

// TestConformance plays the suite on the real CLI.
func TestConformance(t *testing.T) {
	b := newBench(t)
	backendtest.Run(t, backendtest.Rig{
		Name:    "codex",
		Backend: func(testing.TB) backends.Backend { return governed{b.backend()} },
		Seat:    func(t testing.TB, c backendtest.Case) backendtest.Seat { return b.seat(t).of(c) },
		Models:  [2]string{codexscript.Model, "gpt-5.4"}, Efforts: [2]string{"low", "high"}, Clash: "exec_command",
		Skip: map[string]string{
			"error-internal": "no failure of a provider is the server's own: a 500 is worth another try, so it is overloaded",
		},
	})
}
