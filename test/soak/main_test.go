//go:build linux

package soak_test

import (
	"flag"
	"os"
	"testing"
	"time"

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
	binary = *given
	os.Exit(server.Main(m, &binary))
}
