//go:build linux

package server

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// Main is the TestMain of a package that runs innerd: its result is the exit
// code. The binary is what *binary names, or is built there; no goroutine may
// be left of tests that passed.
func Main(m *testing.M, binary *string) (code int) {
	flag.Parse()
	if *binary == "" {
		dir, err := os.MkdirTemp("", "innerd-test-")
		if err == nil {
			defer os.RemoveAll(dir) //nolint:errcheck // a folder for temporary files
			*binary, err = Build(dir)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	code = m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}

// AtOnce says how many parallel tests run at the same time, unless the command
// line does: what waits most of the time leaves the processors to others. Call
// it before Main.
func AtOnce(n int) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set(fmt.Sprint(n)) // it is a number
	}
}

// Long reports whether the long forms of tests are asked for.
func Long() bool { return os.Getenv("INNERD_LONG") != "" }
