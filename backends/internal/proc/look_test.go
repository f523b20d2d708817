//go:build linux

package proc_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("never: %s", what)
		}
	}
}

func number(t *testing.T, line string) int {
	t.Helper()
	_, s, _ := strings.Cut(line, " ")
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatalf("no number in %q", line)
	}
	return n
}

// statFields are those of /proc/PID/stat from the third on.
func statFields(pid int) []string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
}

func alive(pid int) bool {
	f := statFields(pid)
	return len(f) > 0 && f[0] != "Z" && f[0] != "X"
}

func ticks(t *testing.T, pid int) int {
	t.Helper()
	n, err := strconv.Atoi(statFields(pid)[19])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// marked lists the living processes whose mark begins so.
func marked(t *testing.T, mark string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, f := range files {
		if b, _ := os.ReadFile(f); bytes.Contains(b, []byte("INNERD_MARK="+mark)) {
			left = append(left, f)
		}
	}
	return left
}
