package codex_test

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// recordTo, an absolute folder, has the conformance tests record transcripts:
// go test ./backends/codex -run Conformance -record $PWD/test/testdata/codex
var recordTo = flag.String("record", "", "record what goes between backend and agent into this folder")

var update = flag.Bool("update", false, "write the golden files and the table anew")

// TestMain is also the program that stands in for codex: see fake_test.go.
func TestMain(m *testing.M) {
	switch os.Getenv("CODEX_TEST_ROLE") {
	case "fake":
		os.Exit(fake())
	case "proxy":
		os.Exit(proxy())
	}
	goleak.VerifyTestMain(m)
}
