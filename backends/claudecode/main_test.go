package claudecode_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain is also the program that stands in for claude: see fake_test.go.
func TestMain(m *testing.M) {
	switch os.Getenv("CLAUDECODE_TEST_ROLE") {
	case "fake":
		os.Exit(fake())
	case "proxy":
		os.Exit(proxy())
	}
	goleak.VerifyTestMain(m)
}
