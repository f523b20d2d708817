package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Exit is how a child ended.
type Exit struct {
	Code       int    // -1 when a signal ended it
	Signal     string // "killed", "terminated", …
	StderrTail string
}

// Child is a process that was started. Its methods may be called at the same
// time and after its end.
type Child struct {
	s       *Supervisor
	cmd     Command
	rec     record
	in      *input
	out     *output
	errOut  *output
	secrets []*os.File
	stderr  tail
	muted   bool // canceled while it started: nobody hears of it

	stopping atomic.Bool
	exited   chan struct{} // the process is gone; its output may still come
	done     chan struct{}
	exit     Exit // before done is closed
}

func newChild(s *Supervisor, cmd Command, rec record, p pipes) *Child {
	if cmd.Grace <= 0 {
		cmd.Grace = DefaultGrace
	}
	return &Child{
		s: s, cmd: cmd, rec: rec,
		in: newInput(p.ours[0]), out: &output{f: p.ours[1]}, errOut: &output{f: p.ours[2]}, secrets: p.ours[3:],
		exited: make(chan struct{}), done: make(chan struct{}),
	}
}

// mute drops all that the child will say.
func (c *Child) mute() {
	c.muted = true
	c.cmd.OnStart, c.cmd.OnStdout, c.cmd.OnLine, c.cmd.OnNotice = nil, nil, nil, nil
}

// PID is the process id, and that of its group and session.
func (c *Child) PID() int { return c.rec.ID.PID }

// Mark is what the child and all it starts have as INNERD_MARK.
func (c *Child) Mark() string { return c.rec.Mark }

// Send queues a line for the child's stdin, with an LF unless it has one; with
// OnStdout, bytes as they are. It copies line and never waits for the child.
// ErrClosed: the child's stdin is closed. ErrBacklog: 256 MiB wait for it.
func (c *Child) Send(line []byte) error {
	b := make([]byte, 0, len(line)+1)
	b = append(b, line...)
	if c.cmd.OnStdout == nil && !bytes.HasSuffix(b, []byte{'\n'}) {
		b = append(b, '\n')
	}
	return c.in.send(b)
}

// CloseInput gives the child its EOF, after all that was sent.
func (c *Child) CloseInput() { c.in.close() }

// Signal sends sig to the process alone. One that has ended is no error.
func (c *Child) Signal(sig os.Signal) error {
	n, ok := sig.(syscall.Signal)
	if !ok {
		return fmt.Errorf("proc: no such signal: %v", sig)
	}
	return c.s.starter.Signal(c.rec.ID, n, false)
}

// Done is closed when the process has ended, its output was read to the end
// and nothing that it started is left.
func (c *Child) Done() <-chan struct{} { return c.done }

// Exit says how the process ended. It waits for Done.
func (c *Child) Exit() Exit {
	<-c.done
	return c.exit
}

// StderrTail is the end of what the child has written to stderr so far.
func (c *Child) StderrTail() string { return c.stderr.String() }

// Stop asks the child's group to end, kills it after its grace, and waits for
// Done. The end of ctx ends the grace at once; Stop then returns ctx's cause
// if the child is not gone within a second.
func (c *Child) Stop(ctx context.Context) error {
	if c.stopping.CompareAndSwap(false, true) {
		_ = c.s.starter.Signal(c.rec.ID, syscall.SIGTERM, true)
	}
	grace := time.NewTimer(c.cmd.Grace)
	defer grace.Stop()
	select {
	case <-c.done:
		return nil
	case <-c.exited:
	case <-grace.C:
		c.kill()
	case <-ctx.Done():
		c.kill()
	}
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
	}
	late := time.NewTimer(time.Second)
	defer late.Stop()
	select {
	case <-c.done:
		return nil
	case <-late.C:
		return fmt.Errorf("stop %s: %w", c.cmd.Name, context.Cause(ctx))
	}
}

// Sweep ends what bears the child's mark with "." and part added, and leaves
// the child alone. It is how one conversation's commands are ended in a
// process that several share, where the agent lets each have variables of its
// own. No more than five seconds; a *LeftError says what is left.
func (c *Child) Sweep(ctx context.Context, part string) error {
	if part == "" {
		return errors.New("proc: a sweep of no part")
	}
	ctx, cancel := context.WithTimeout(ctx, sweepLimit)
	defer cancel()
	return c.s.starter.Sweep(ctx, Target{Mark: c.rec.Mark + "." + part, Spare: c.PID()})
}

// SweepWith is Sweep for an agent that gives the commands of one conversation
// a variable of its own making: it ends what bears the child's mark and has
// kv, NAME=value, in its environment.
func (c *Child) SweepWith(ctx context.Context, kv string) error {
	if name, _, ok := strings.Cut(kv, "="); !ok || name == "" {
		return errors.New("proc: a sweep of no variable")
	}
	ctx, cancel := context.WithTimeout(ctx, sweepLimit)
	defer cancel()
	return c.s.starter.Sweep(ctx, Target{Mark: c.rec.Mark, With: kv, Spare: c.PID()})
}

// SweepCommands ends all that bears the child's mark but the child and the
// agent that it waits for, if it is a script: what its commands have left
// running, in whatever session. No more than five seconds;
// a *LeftError says what is left.
func (c *Child) SweepCommands(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, sweepLimit)
	defer cancel()
	return c.s.starter.Sweep(ctx, Target{Mark: c.rec.Mark, Spare: c.PID()})
}

func (c *Child) kill() { _ = c.s.starter.Signal(c.rec.ID, syscall.SIGKILL, true) }

// supervise owns the child's goroutines from its start to its end. However a
// child ends, it ends here.
func (c *Child) supervise() {
	var readers, writers sync.WaitGroup
	readers.Go(c.readStdout)
	readers.Go(func() { _, _ = io.Copy(&c.stderr, c.errOut) })
	writers.Go(func() {
		if c.in.run() {
			c.useless("stdin")
		}
	})
	for i, f := range c.secrets {
		writers.Go(func() {
			_, _ = f.Write(c.cmd.Secrets[i])
			_ = f.Close()
		})
	}
	if err := c.s.starter.Wait(c.rec.ID); err != nil {
		c.s.log.Error("waiting for a child failed", "name", c.cmd.Name, "pid", c.PID(), "err", err)
	}
	close(c.exited)
	c.in.abort()
	closeAll(c.secrets) // frees a writer whose secret nobody read
	writers.Wait()
	c.finishOutput(&readers)

	status, err := c.s.starter.Reap(c.rec.ID)
	if err != nil {
		c.s.log.Error("reaping a child failed", "name", c.cmd.Name, "pid", c.PID(), "err", err)
	}
	c.exit = Exit{Code: status.Code, StderrTail: c.stderr.String()}
	if status.Signal != 0 {
		c.exit.Signal = status.Signal.String()
	}
	c.s.forget(c)
	close(c.done)
}

// finishOutput reads what the ended child has written and sweeps. Holders of
// its pipes get a moment to finish, then they are swept too.
func (c *Child) finishOutput(readers *sync.WaitGroup) {
	c.out.ended()
	c.errOut.ended()
	read := make(chan struct{})
	go func() { // ends when the pipes are read
		readers.Wait()
		close(read)
	}()
	wait(read, drainLimit)
	ctx, cancel := context.WithTimeout(context.Background(), sweepLimit)
	err := c.s.starter.Sweep(ctx, Target{IDs: []ID{c.rec.ID}, Mark: c.rec.Mark})
	cancel()
	if err != nil {
		// The record stays: the next server's Recover tries again.
		c.s.log.Error("a child's processes could not be ended", "name", c.cmd.Name, "err", err)
	} else {
		c.s.records.remove(c.rec.Child)
	}
	if !wait(read, holdLimit) {
		c.out.stop() // someone who cannot be killed writes without end
		c.errOut.stop()
		<-read // OnLine returns some time: what it was given is never lost
	}
	_ = c.out.f.Close()
	_ = c.errOut.f.Close()
}

const (
	drainLimit = time.Second
	holdLimit  = 5 * time.Second
)

// wait reports whether done was closed within limit.
func wait(done <-chan struct{}, limit time.Duration) bool {
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}

// readStdout reads to the end even where the handler does not: a child whose
// pipe is full would never end.
func (c *Child) readStdout() {
	defer func() {
		_, _ = io.Copy(io.Discard, c.out)
		c.useless("stdout")
	}()
	defer c.recoverHandler()
	switch {
	case c.cmd.OnStdout != nil:
		c.cmd.OnStdout(c.out)
	case c.cmd.OnLine != nil:
		if err := ReadLines(c.out, c.cmd.MaxLine, c.cmd.OnLine, c.cmd.OnNotice); err != nil {
			c.s.log.Warn("reading a child failed", "name", c.cmd.Name, "err", err)
		}
	}
}

// useless ends a child that closed its stdout or its stdin and lives on: it can
// say nothing any more, or be told nothing, and whoever waits for it would wait
// for ever. One that is about to end by itself has its grace for that.
func (c *Child) useless(stream string) {
	if wait(c.exited, c.cmd.Grace) {
		return
	}
	c.s.log.Warn("a child has closed a stream and lives on; ending it", "name", c.cmd.Name, "pid", c.PID(), "stream", stream)
	fmt.Fprintf(&c.stderr, "\ninnerd: it closed its %s and went on; it was ended\n", stream)
	_ = c.s.starter.Signal(c.rec.ID, syscall.SIGTERM, true)
	if !wait(c.exited, c.cmd.Grace) {
		c.kill()
	}
}

// recoverHandler makes a panic of a handler the end of its child alone.
func (c *Child) recoverHandler() {
	if p := recover(); p != nil {
		c.s.log.Error("panic in the reader of a child", "name", c.cmd.Name, "panic", p, "stack", string(debug.Stack()))
		fmt.Fprintf(&c.stderr, "\ninnerd: panic in the reader: %v\n", p)
		c.kill()
	}
}
