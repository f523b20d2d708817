package copilot_test

import (
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"innerd/backends"
	"innerd/backends/backendtest"
)

// TestStaysAfterItsInput: a copilot that does not end with its input is told to,
// and killed where it does not listen, all of that within the time that an end
// may take; what it has started ends with it.
func TestStaysAfterItsInput(t *testing.T) {
	t.Parallel()
	for stays, least := range map[string]time.Duration{"EOF": 2 * time.Second, "TERM": 4 * time.Second} {
		t.Run(stays, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, acts([]act{{Stays: stays}}, send("i1"), []act{say("ok")}, stop)...)
			c := f.open(t, nil)
			if _, _, err := run(t, t.Context(), c, backendtest.Turn{}, backends.Settings{}); err != nil {
				t.Fatal(err)
			}
			if n := f.processes(); n < 3 {
				t.Fatalf("%d processes", n)
			}
			if err := c.Close(t.Context()); err != nil {
				t.Error(err)
			}
			begin := time.Now()
			if err := f.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if took := time.Since(begin); took < least || took > 10*time.Second {
				t.Errorf("its end took %v", took)
			}
			if n := f.processes(); n > 0 {
				t.Errorf("%d processes are left", n)
			}
		})
	}
}

// stay leaves two processes, one of which is in a session of its own.
func stay(deaf bool) error {
	command := "sleep 300; :"
	if deaf {
		signal.Ignore(syscall.SIGTERM)
		command = "trap '' TERM; " + command
	}
	for _, own := range []bool{false, true} {
		c := exec.Command("sh", "-c", command)
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: own}
		if err := c.Start(); err != nil {
			return err
		}
	}
	return nil
}
