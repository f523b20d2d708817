package proc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
)

// SweepMain is the whole work of the program that NewLocalAs runs: it reads a
// Target, sweeps as the user that it runs as, and writes what could not be
// ended. It ends when in ends early, or after ten seconds.
func SweepMain(in io.Reader, out io.Writer) error {
	var t Target
	if err := json.NewDecoder(in).Decode(&t); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), recoverLimit)
	defer cancel()
	return json.NewEncoder(out).Encode(newFault(sweep(ctx, t, t.IDs)))
}

// sweepAsUser has the sweeper sweep. It is the user's process, which an agent
// may kill: so it is tried again until ctx ends.
func (l *local) sweepAsUser(ctx context.Context, t Target) error {
	in, err := json.Marshal(t)
	if err != nil {
		return err
	}
	for {
		again, err := l.runSweeper(ctx, in)
		if !again {
			return err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return &LeftError{Cause: errors.Join(context.Cause(ctx), err)}
		}
	}
}

// runSweeper reports whether a sweeper that failed by itself shall run again.
func (l *local) runSweeper(ctx context.Context, in []byte) (again bool, err error) {
	cmd := exec.CommandContext(ctx, l.sweeper[0], l.sweeper[1:]...)
	// The sweeper's user can open its pipes too: hold them, or write without end.
	var out, said tail
	cmd.WaitDelay = time.Second
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &said
	cmd.Env, cmd.Dir, cmd.SysProcAttr = []string{}, "/", attributes(l.user)
	failed := error(ErrClosed)
	// On the thread that lives: the end of another would be the sweeper's.
	l.thread.do(func() {
		failed = l.orphans.Start(func() (int, error) {
			if err := cmd.Start(); err != nil {
				return 0, err
			}
			return cmd.Process.Pid, nil
		})
	})
	if failed == nil {
		failed = cmd.Wait()
		l.orphans.Reaped(cmd.Process.Pid)
	}
	if failed != nil {
		again = !errors.Is(failed, ErrClosed) && ctx.Err() == nil
		return again, fmt.Errorf("proc: the sweeper failed: %w %s", failed, strings.TrimSpace(said.String()))
	}
	var f *fault
	if err := json.Unmarshal([]byte(out.String()), &f); err != nil {
		return true, fmt.Errorf("proc: the sweeper said %q: %w", out.String(), err)
	}
	return false, f.error()
}
