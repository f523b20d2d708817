package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"innerd/backends"
	"innerd/backends/internal/proc"
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
	_, _ = io.WriteString(stderr, os.Getenv(CrashStderrEnv)) // it dies all the same
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

// run starts the child and waits until it is dead and gone.
func (s crash) run(t *turn) (backends.Exit, error) {
	o := t.c.b.opts
	children := o.Children
	if children == nil {
		children = backends.NewChildren(backends.ChildrenOptions{})
		defer children.Close(context.WithoutCancel(t.ctx)) // it has no child then
	}
	command := o.CrashCommand
	if len(command) == 0 {
		command = crashShell
	}
	child, err := children.Start(t.ctx, proc.Command{
		Name: Name, Path: command[0], Args: command[1:], Dir: t.c.cfg.Dir,
		Env:          children.Environ(map[string]string{CrashExitEnv: strconv.Itoa(s.code), CrashStderrEnv: s.stderr}),
		Conversation: t.c.cfg.ID, Grace: t.c.cfg.Grace,
	})
	if err != nil {
		if terr := t.err(); terr != nil {
			return backends.Exit{}, terr
		}
		return backends.Exit{}, &backends.Error{Type: events.ErrInternal, Message: "the child of a crash step: " + err.Error()}
	}
	select {
	case <-child.Done():
	case <-t.ctx.Done():
		if err := child.Stop(context.WithoutCancel(t.ctx)); err != nil {
			return backends.Exit{}, errors.Join(t.err(), err)
		}
		return backends.Exit{}, t.err()
	}
	return backends.Exit(child.Exit()), nil
}
