//go:build linux

package soak_test

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"innerd/test/server"
)

// binary is the innerd under test, as it is released.
var binary string

var given = flag.String("binary", "", "the released innerd; where it is not given, it is built")

var instead = flag.Duration("lasts", 0, "of a long form; its own time if it is 0")

// lasts is how long a long form takes that has a time of its own.
func lasts(own time.Duration) time.Duration {
	if *instead > 0 {
		return *instead
	}
	return own
}

// wanted are the long forms that are asked for: soak, load, recovery.
var wanted = os.Getenv("INNERD_SOAK")

func long(form string) bool { return wanted == form }

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "innerd-soak-")
	if binary = *given; err == nil && binary == "" {
		binary, err = server.Build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	_ = os.RemoveAll(dir) // a folder for temporary files
	os.Exit(code)
}
