package copilot_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"innerd/backends"
	"innerd/backends/backendtest"
)

var record = flag.Bool("record", false, "record the transcripts of test/testdata/copilot anew, from the real CLI")

// recorded are the cases whose transcripts the golden test translates.
var recorded = []string{
	"text", "reasoning", "odd-characters", "retry-discarded", "retry-discards-reasoning", "reason-max-tokens", "reason-refusal", "empty-turn",
	"native-tool", "native-tool-fails", "call-text", "call-error", "call-image", "call-1-mib", "calls-8-parallel", "calls-in-a-row",
	"permission-denied", "question", "cancel-in-text", "cancel-in-native-tool", "cancel-in-bridged-call", "cancel-before-first-byte",
	"usage-cached", "usage-reasoning", "usage-of-model-turns", "file-create", "file-edit", "file-delete", "file-move", "subagent",
	"background-ended", "background-waited", "steer-in-text", "compact-by-itself", "max-turns",
	"error-auth", "error-rate_limit", "error-quota", "error-overloaded", "error-invalid_request", "error-context_length",
	"error-model_unavailable", "error-refused", "error-cut-stream",
}

// TestRecord plays cases through a program that keeps what is said, if it is
// told to; what is recorded must be there, and of cases that there are.
func TestRecord(t *testing.T) {
	if !*record {
		for _, name := range recorded {
			known := slices.ContainsFunc(backendtest.All(), func(c backendtest.Case) bool { return c.Name == name })
			if _, err := os.Stat(filepath.Join(transcripts, name+".jsonl")); err != nil || !known {
				t.Errorf("%s: %v, a case: %v; record it with -record", name, err, known)
			}
		}
		return
	}
	b := newBench(t)
	file := filepath.Join(t.TempDir(), "all.jsonl")
	rig := backendtest.Rig{
		Name: "copilot", Backend: func(testing.TB) backends.Backend { return backendtest.Governed{Backend: b.backend()} },
		Seat: func(t testing.TB, c backendtest.Case) backendtest.Seat {
			s := b.seat(t).of(c)
			s.env["TEST_NOISE"], s.env["TEST_REAL"], s.env["COPILOTTEST_ROLE"] = "none", b.copilot, "recorder"
			s.env["TEST_RECORD"] = file
			return s
		},
		Keeps: []string{"proc.(*thread).loop"},
	}
	for _, c := range backendtest.All() {
		if !slices.Contains(recorded, c.Name) {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			_ = os.Remove(file)
			backendtest.RunCase(t, rig, c)
			keepTranscript(t, file, filepath.Join(transcripts, c.Name+".jsonl"))
		})
	}
}

// keepTranscript leaves out what says nothing and what is only long.
func keepTranscript(t *testing.T, from, to string) {
	t.Helper()
	raw, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for line := range bytes.Lines(raw) {
		if !dull(line) {
			out.Write(line)
		}
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func dull(line []byte) bool {
	for _, s := range []string{
		`"method":"session.lifecycle"`, `"type":"model.`, `"type":"system.message"`, `"type":"hook.`, `"type":"session.background_tasks_changed"`,
		`"type":"assistant.streaming_delta"`, `"method":"hooks.invoke"`, `"type":"session.managed_settings_resolved"`, `"type":"session.skills_loaded"`,
	} {
		if bytes.Contains(line[:min(len(line), 400)], []byte(s)) && !bytes.Contains(line, []byte(`"type":"model.call_failure"`)) {
			return true
		}
	}
	return len(line) > 200_000
}

// recorder is the real copilot and keeps what goes in and out, one message a
// line, without keys.
func recorder() int {
	cmd := exec.Command(os.Getenv("TEST_REAL"), os.Args[1:]...)
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	f, err3 := os.OpenFile(os.Getenv("TEST_RECORD"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err := errors.Join(err1, err2, err3, cmd.Start()); err != nil {
		fmt.Fprintln(os.Stderr, "recorder:", err)
		return 99
	}
	var mu sync.Mutex
	begin := time.Now()
	keep := func(dir string, body []byte) {
		mu.Lock()
		defer mu.Unlock()
		line, err := json.Marshal(map[string]any{"dir": dir, "ms": time.Since(begin).Milliseconds(), "msg": json.RawMessage(body)})
		if err == nil {
			_, _ = f.Write(append(bytes.ReplaceAll(line, []byte(benchKey), []byte("KEY")), '\n'))
		}
	}
	relay := func(w io.WriteCloser, r io.Reader, dir string) {
		defer w.Close() //nolint:errcheck // the end
		br := bufio.NewReader(r)
		for body := readFrame(br); body != nil; body = readFrame(br) {
			keep(dir, body)
			writeFrame(w, string(body))
		}
	}
	go relay(in, os.Stdin, "in") // ends with the process
	relay(os.Stdout, out, "out")
	if err := cmd.Wait(); err != nil {
		return 1
	}
	return 0
}

// TestTranscriptsHoldNoKey: they are recorded with dummy keys, and not even
// these are kept.
func TestTranscriptsHoldNoKey(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join(transcripts, "*.jsonl"))
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil || strings.Contains(string(raw), benchKey) || strings.Contains(string(raw), "sk-stub") {
			t.Errorf("%s: %v, or a key in it", f, err)
		}
	}
	if len(files) == 0 {
		t.Error("no transcripts")
	}
}
