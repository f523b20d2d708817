//go:build linux

package parity_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"innerd/test/server"
)

// It is looked at by backendtest's table.
var _ = flag.Bool("update", false, "write what was found to testdata")

// innerd is the binary under test.
var innerd string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if os.Getenv(insideEnv) != "" { // in a network namespace: the binary is there
		innerd = os.Getenv(insideEnv)
		return m.Run()
	}
	// Most rows wait: for a model, a time-out, a host that is away.
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = flag.Set("test.parallel", "6") // it exists
	}
	dir, err := os.MkdirTemp("", "innerd-parity-")
	if err == nil {
		defer os.RemoveAll(dir) //nolint:errcheck // a folder for temporary files
		innerd, err = server.Build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}
