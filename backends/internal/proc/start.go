package proc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
)

// Command is what to start.
type Command struct {
	Name string // for messages: "claude"
	Path string // a name without a slash is looked up in the PATH of Env
	Args []string
	Dir  string
	Env  []string // whole; from Environ
	// Conversation is the ULID that the mark names; "" for a child of none.
	Conversation string
	// Secrets are written into pipes, the child's descriptors 3, 4, …, each
	// ended by EOF. A child need not read them.
	Secrets [][]byte
	Grace   time.Duration // between TERM and KILL; 0: 3 s

	// OnStart gets the child before any of the functions below is called, so
	// that they can use it: they may run before Start has returned.
	OnStart func(*Child)
	// OnLine gets each line of stdout without its LF, in order, on one
	// goroutine; the slice is valid during the call. While it blocks, the
	// child is not read, so it must not wait for the child or its Stop.
	OnLine func([]byte)
	// OnNotice is told what else a reader should know: a line that was too
	// long. On OnLine's goroutine.
	OnNotice func(string)
	MaxLine  int // bytes; 0: DefaultMaxLine
	// OnStdout takes stdout itself, instead of OnLine; what it leaves is
	// thrown away. Send then writes bytes as they are.
	OnStdout func(io.Reader)
}

// DefaultGrace is a child's time between TERM and KILL.
const DefaultGrace = 3 * time.Second

// StartError says why a child could not be started. It wraps fs.ErrNotExist,
// fs.ErrPermission, syscall.EMFILE and the like.
type StartError struct {
	Name string
	Path string
	Err  error
}

func (e *StartError) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("start %s: %v", e.Name, e.Err)
	}
	return fmt.Sprintf("start %s (%s): %v", e.Name, e.Path, e.Err)
}

func (e *StartError) Unwrap() error { return e.Err }

// Start starts a child. ctx bounds the start alone: when it ends before Start
// returns, no child is left and the error wraps its cause. Any other failure
// to start is a *StartError, or ErrClosed.
func (s *Supervisor) Start(ctx context.Context, cmd Command) (*Child, error) {
	if ctx.Err() != nil {
		return nil, &StartError{cmd.Name, cmd.Path, context.Cause(ctx)}
	}
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.starting.Done()
	spec, err := makeSpec(cmd)
	if err != nil {
		return nil, &StartError{cmd.Name, cmd.Path, err}
	}
	rec := s.newRecord(cmd)
	spec.Env = withMark(spec.Env, rec.Mark)
	if err := s.records.save(rec); err != nil {
		return nil, &StartError{cmd.Name, "", fmt.Errorf("record the child: %w", err)}
	}
	p, err := openPipes(len(cmd.Secrets))
	if err != nil {
		s.records.remove(rec.Child)
		return nil, &StartError{cmd.Name, cmd.Path, err}
	}
	id, err := s.starter.Start(spec, p.theirs)
	closeAll(p.theirs)
	if err != nil {
		closeAll(p.ours)
		s.records.remove(rec.Child)
		return nil, &StartError{cmd.Name, spec.Path, explain(spec, err)}
	}
	rec.ID = id
	if err := s.records.save(rec); err != nil {
		s.log.Warn("child is recorded without its pid", "name", cmd.Name, "pid", id.PID, "err", err)
	}
	c := newChild(s, cmd, rec, p)
	if ctx.Err() != nil {
		c.mute()
		c.kill()
	}
	if c.cmd.OnStart != nil {
		c.cmd.OnStart(c)
	}
	s.add(c)
	go c.supervise() // ends with the child
	if c.muted {
		<-c.done
		return nil, &StartError{cmd.Name, cmd.Path, context.Cause(ctx)}
	}
	return c, nil
}

func (s *Supervisor) newRecord(cmd Command) record {
	child := ulid.Make().String()
	conversation := cmd.Conversation
	if conversation == "" {
		conversation = child
	}
	// The last part keeps two children of one conversation apart: the sweep
	// of the one that ends must not end the one that takes its place.
	return record{
		Child: child, Name: cmd.Name, Boot: bootID(), Begun: time.Now().UTC(),
		Mark: s.id + "." + conversation + "." + child,
	}
}

func makeSpec(cmd Command) (Spec, error) {
	for _, kv := range cmd.Env {
		if strings.Contains(kv, "\x00") {
			name, _, _ := strings.Cut(kv, "=")
			return Spec{}, fmt.Errorf("the variable %q has a NUL byte", name)
		}
	}
	path, err := lookPath(cmd.Path, cmd.Env)
	if err != nil {
		return Spec{}, err
	}
	return Spec{Path: path, Args: append([]string{cmd.Path}, cmd.Args...), Env: cmd.Env, Dir: cmd.Dir}, nil
}

// lookPath finds a program in the PATH that the child will have, not in ours.
func lookPath(name string, env []string) (string, error) {
	if strings.ContainsRune(name, filepath.Separator) {
		return filepath.Abs(name)
	}
	var path string
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = v
		}
	}
	err := error(exec.ErrNotFound)
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) || name == "" {
			continue // a program of the working directory is never meant
		}
		found, lookErr := exec.LookPath(filepath.Join(dir, name))
		if lookErr == nil {
			return found, nil
		}
		if errors.Is(lookErr, fs.ErrPermission) {
			err = lookErr
		}
	}
	return "", err
}

// explain makes the kernel's ENOENT and ENOTDIR say what is missing.
func explain(spec Spec, err error) error {
	if spec.Dir != "" {
		if info, dirErr := os.Stat(spec.Dir); dirErr != nil {
			return fmt.Errorf("working directory: %w", dirErr)
		} else if !info.IsDir() {
			return fmt.Errorf("working directory: %s is not a directory", spec.Dir)
		}
	}
	if _, pathErr := os.Stat(spec.Path); pathErr == nil && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("its interpreter or loader is missing: %w", err)
	}
	return err
}

// pipes are the ends of stdin, stdout, stderr and the secrets, in this order.
// All are close-on-exec: a child gets its own and no other's.
type pipes struct{ ours, theirs []*os.File }

func openPipes(secrets int) (pipes, error) {
	var p pipes
	for i := range 3 + secrets {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(p.ours)
			closeAll(p.theirs)
			return pipes{}, err
		}
		if i > 2 {
			// Children open it again by its name in /dev/fd, which asks for
			// more than having it: it is this user's, and they may be another.
			_ = r.Chmod(0o444)
		}
		if i == 1 || i == 2 {
			r, w = w, r // the child writes these
		}
		p.theirs, p.ours = append(p.theirs, r), append(p.ours, w)
	}
	return p, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
