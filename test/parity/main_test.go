//go:build linux

package parity_test

import (
	"flag"
	"os"
	"testing"

	"innerd/test/server"
)

// It is looked at by backendtest's table.
var _ = flag.Bool("update", false, "write what was found to testdata")

// innerd is the binary under test.
var innerd string

func TestMain(m *testing.M) {
	innerd = os.Getenv(insideEnv) // in a network namespace: it is there
	if innerd == "" {
		server.AtOnce(6) // most rows wait: for a model, a time-out, a host that is away
	}
	os.Exit(server.Main(m, &innerd))
}
