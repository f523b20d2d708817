package copilot_test

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestMain is also the program that stands in for copilot: see fake_test.go.
func TestMain(m *testing.M) {
	switch os.Getenv("COPILOTTEST_ROLE") {
	case "fake":
		os.Exit(fake())
	case "proxy":
		os.Exit(proxy())
	case "recorder":
		os.Exit(recorder())
	}
	goleak.VerifyTestMain(m)
}
