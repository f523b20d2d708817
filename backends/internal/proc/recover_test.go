//go:build linux

package proc_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The server itself is killed: the kernel ends its child at once, and the next
// server what that one had started.
func TestRecover(t *testing.T) {
	s, state := supervisor(t)
	first := exec.Command(os.Args[0])
	first.Env = append(os.Environ(), childVar+"=supervisor", "PROC_TEST_STATE="+state, "PROC_TEST_ID="+s.id)
	out, err := first.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	pids := map[string]int{}
	in := bufio.NewScanner(out)
	ready := false // the grandchild has written: its pipe is about to break
	for (len(pids) < 2 || !ready) && in.Scan() {
		ready = ready || in.Text() == "ready"
		if kind, pid, ok := strings.Cut(in.Text(), " "); ok {
			pids[kind] = number(t, kind+" "+pid)
		}
	}
	_ = first.Process.Kill()
	_ = first.Wait()
	eventually(t, "the child died with its server", func() bool { return !alive(pids["child"]) })
	if !alive(pids["grandchild"]) {
		t.Error("the grandchild is gone before anybody ended it: nothing to test")
	}
	if files, _ := os.ReadDir(filepath.Join(state, "children")); len(files) != 1 {
		t.Errorf("%d records", len(files))
	}
	if err := os.WriteFile(filepath.Join(state, "children", "01TORN.json"), []byte(`{"chi`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := marked(t, s.id); len(left) > 0 || alive(pids["grandchild"]) {
		t.Errorf("left: %v", left)
	}
	if files, _ := os.ReadDir(filepath.Join(state, "children")); len(files) != 0 {
		t.Errorf("%d records are left", len(files))
	}
}

// Without a mark in sight, the record's pid and start time are enough; a
// stranger that has the same pid is left alone.
func TestRecoverByPID(t *testing.T) {
	s, state := supervisor(t)
	start := func() *exec.Cmd {
		cmd := exec.Command("/bin/sleep", "60")
		cmd.Env = []string{}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	agent, stranger := start(), start()
	t.Cleanup(func() { _ = stranger.Process.Kill(); _ = stranger.Wait() })
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err := os.MkdirAll(filepath.Join(state, "children"), 0o700); err != nil {
		t.Fatal(err)
	}
	for i, r := range []struct{ pid, off int }{{agent.Process.Pid, 0}, {stranger.Process.Pid, 1}} {
		rec := fmt.Sprintf(`{"child":"01X%d","boot":%q,"id":{"pid":%d,"start":%d}}`,
			i, strings.TrimSpace(string(boot)), r.pid, ticks(t, r.pid)+r.off)
		if err := os.WriteFile(filepath.Join(state, "children", fmt.Sprintf("01X%d.json", i)), []byte(rec), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan struct{})
	go func() { _ = agent.Wait(); close(done) }() // reaped here, so that it can go
	if err := s.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, done)
	if !alive(stranger.Process.Pid) {
		t.Error("a stranger was ended")
	}
}
