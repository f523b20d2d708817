package simulate

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"innerd/backends"
	"innerd/events"
)

// What the child of a crash step finds in its environment.
const (
	CrashExitEnv   = "INNERD_SIMULATE_EXIT"
	CrashStderrEnv = "INNERD_SIMULATE_STDERR"
)

var crashShell = []string{"/bin/sh", "-c", `printf %s "$` + CrashStderrEnv + `" >&2; exit "$` + CrashExitEnv + `"`}

// CrashChild is the whole life of a child of a crash step: it says what it has
// to say on stderr and returns its exit code.
func CrashChild(stderr io.Writer) int {
	io.WriteString(stderr, os.Getenv(CrashStderrEnv))
	code, err := strconv.Atoi(os.Getenv(CrashExitEnv))
	if err != nil {
		return 1
	}
	return code
}

// crash runs a real child that dies, and takes the conversation with it.
type crash struct {
	code   int
	stderr string
}

func makeCrash(o *object) step {
	in := o.inner("crash", "exit_code", "stderr")
	s := crash{code: 1, stderr: in.str("stderr")}
	if in.has("exit_code") {
		s.code = int(in.integer("exit_code", 0, 255))
	}
	if len(s.stderr) > 64<<10 { // the environment of a child is limited
		in.r.fail(in.path("stderr"), "must be at most 65536 bytes")
	}
	return s
}

func (crash) says() bool { return true }

func (s crash) play(t *turn) error {
	exit, err := s.run(t)
	if err != nil {
		return err
	}
	t.crashed = true
	t.c.die()
	return &backends.Error{Type: events.ErrBackendCrashed, Message: ended(exit), Exit: &exit}
}

func ended(e backends.Exit) string {
	if e.Signal != "" {
		return "the agent's process was ended by a signal: " + e.Signal
	}
	return fmt.Sprintf("the agent's process ended with exit code %d", e.Code)
}

// run starts the child and waits until it is dead.
func (s crash) run(t *turn) (backends.Exit, error) {
	command := t.c.b.opts.CrashCommand
	if len(command) == 0 {
		command = crashShell
	}
	cmd := exec.CommandContext(t.ctx, command[0], command[1:]...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), CrashExitEnv + "=" + strconv.Itoa(s.code), CrashStderrEnv + "=" + s.stderr}
	cmd.WaitDelay = time.Second
	tail := &tailBuffer{}
	cmd.Stderr = tail
	err := cmd.Run()
	if terr := t.err(); terr != nil {
		return backends.Exit{}, terr
	}
	var exited *exec.ExitError
	if err != nil && !errors.As(err, &exited) {
		return backends.Exit{}, &backends.Error{Type: events.ErrInternal, Message: "the child of a crash step cannot be started: " + err.Error()}
	}
	exit := backends.Exit{Code: cmd.ProcessState.ExitCode(), StderrTail: tail.String()}
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		exit.Signal = ws.Signal().String()
	}
	return exit, nil
}

// tailBuffer keeps the last 64 KiB.
type tailBuffer struct{ b []byte }

func (t *tailBuffer) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if over := len(t.b) - 64<<10; over > 0 {
		t.b = t.b[over:]
	}
	return len(p), nil
}

func (t *tailBuffer) String() string { return string(t.b) }
