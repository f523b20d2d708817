//go:build linux || darwin

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/creack/pty"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"innerd/backends"
)

// loginGrace is what a vendor's login may take to end when it is told to.
const loginGrace = 3 * time.Second

func (a *app) loginCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "login BACKEND",
		Short: "Log an agent in, by its vendor's own login",
		Long: `Run the vendor's own login of an agent on this terminal. What it leaves is kept
where "innerd serve" with the same flags lets that agent look for it, and is used
where no key is given. It exits with the code of the vendor's program.`,
		Example:   "  innerd login codex\n  docker exec -it sandbox innerd login claude-code",
		Args:      cobra.ExactArgs(1),
		ValidArgs: backendNames,
		RunE:      func(cmd *cobra.Command, args []string) error { return a.login(cmd, args[0]) },
	}
	addSettings(cmd, serveSettings())
	return cmd
}

func (a *app) login(cmd *cobra.Command, name string) error {
	set, err := resolve(cmd, serveSettings(), a.getenv, a.warn)
	if err != nil {
		return err
	}
	home, err := dirOf(set.str("agent-home"), defaultAgentHome(a.getenv))
	if err != nil {
		return err
	}
	s := &server{app: a, log: newLogger(io.Discard, "text", "error"), cfg: &serverConfig{set: set, agentHome: home}}
	s.children = backends.NewChildren(backends.ChildrenOptions{Inherit: set.list("agent-env")})
	defer s.children.Close(context.WithoutCancel(cmd.Context())) //nolint:errcheck // it has started nothing that lasts
	if s.agents, err = s.makeAgents(cmd.Context()); err != nil {
		return err
	}
	what, err := loginOf(s.agents, name)
	if err != nil {
		return err
	}
	in, ok := a.in.(*os.File)
	if !ok || !isTerminal(a.in) || !isTerminal(a.out) {
		return usageError{errors.New("a login talks to its user: run it on a terminal, in a container with docker exec -it")}
	}
	owner := ownerOf(home)
	if err := giveTo(home, owner); err != nil {
		return err
	}
	return a.onTerminal(in, a.out.(*os.File), what, owner)
}

// giveTo makes what we have just made below a folder its owner's.
func giveTo(dir string, owner *syscall.Credential) error {
	if owner == nil {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue // gone meanwhile
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid == 0 {
			if err := os.Lchown(filepath.Join(dir, e.Name()), int(owner.Uid), int(owner.Gid)); err != nil {
				return err
			}
		}
	}
	return nil
}

// ownerOf is who a folder is for, where that is another than us and we may act
// as them; nil: ourselves. What a login leaves is for the agents' user.
func ownerOf(dir string) *syscall.Credential {
	info, err := os.Stat(dir)
	if err != nil || os.Geteuid() != 0 {
		return nil
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || st.Uid == 0 {
		return nil
	}
	return &syscall.Credential{Uid: st.Uid, Gid: st.Gid}
}

// loginOf is the command that logs an agent in.
func loginOf(agents []backends.Backend, name string) (backends.LoginCommand, error) {
	name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	var can []string
	for _, b := range agents {
		l, ok := b.(backends.Loginer)
		if !ok {
			continue
		}
		can = append(can, b.Name())
		if b.Name() != name {
			continue
		}
		what, err := l.Login()
		if err != nil {
			return what, exitError{exitUnavailable, fmt.Errorf("%s: %w; see innerd doctor", name, err)}
		}
		return what, nil
	}
	return backends.LoginCommand{}, usageError{fmt.Errorf("%s has no login of its own; these have: %s", name, strings.Join(can, ", "))}
}

// onTerminal runs a program on a terminal of its own behind this one: its size
// follows, keys reach it one by one, what it prints comes through. However it
// ends, this terminal is as it was.
func (a *app) onTerminal(in, out *os.File, what backends.LoginCommand, as *syscall.Credential) error {
	cmd := exec.Command(what.Path, what.Args...)
	cmd.Env, cmd.SysProcAttr = what.Env, &syscall.SysProcAttr{Credential: as}
	// From before the start until the terminal is as it was: no signal falls
	// between, and the program does not inherit that we were started with one
	// ignored (a shell's background job is): its Ctrl-C would do nothing.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, append(stopSignals(), syscall.SIGWINCH)...)
	defer signal.Stop(signals)
	size, err := pty.GetsizeFull(out)
	if err != nil {
		size = &pty.Winsize{Rows: 24, Cols: 80}
	}
	opened, err := pty.StartWithSize(cmd, size)
	if err != nil {
		return exitError{exitUnavailable, fmt.Errorf("%s: %w", what.Path, err)}
	}
	master, err := pollable(opened)
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return err
	}
	before, err := term.MakeRaw(int(in.Fd()))
	if err == nil {
		defer func() { _ = term.Restore(int(in.Fd()), before) }()
	}
	defer follow(signals, cmd.Process, master, out)()
	// Ends with this process: a read of a terminal can't be called off.
	go func() { _, _ = io.Copy(master, in) }()
	_, _ = io.Copy(out, master) // ends with EIO when the program has ended
	err = cmd.Wait()
	_ = master.Close()
	return loginEnd(err)
}

// pollable makes a terminal's file one whose reads can be ended: opening it as
// a library does leaves it blocking, and each read a thread.
func pollable(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	name := f.Name()
	_ = f.Close()
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// follow keeps the size of the program's terminal that of ours, and passes on
// the signals that end us, until stop is called.
func follow(signals <-chan os.Signal, p *os.Process, master, out *os.File) (stop func()) {
	over, gone := make(chan struct{}), make(chan struct{})
	go func() { // ends with stop
		defer close(gone)
		var late <-chan time.Time
		for {
			select {
			case sig := <-signals:
				if sig == syscall.SIGWINCH {
					resize(master, out)
					continue
				}
				_ = syscall.Kill(-p.Pid, sig.(syscall.Signal)) // it leads a session, and so a group
				if late == nil {
					late = time.After(loginGrace)
				}
			case <-late:
				_ = syscall.Kill(-p.Pid, syscall.SIGKILL)
			case <-over:
				return
			}
		}
	}()
	return func() {
		close(over)
		<-gone
	}
}

func resize(master, out *os.File) {
	size, err := unix.IoctlGetWinsize(int(out.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return
	}
	raw, err := master.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { _ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, size) })
}

// loginEnd passes the program's exit code on; one that a signal ended is told
// as a shell does.
func loginEnd(err error) error {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	code := exit.ExitCode()
	if st, ok := exit.Sys().(syscall.WaitStatus); ok && st.Signaled() {
		code = 128 + int(st.Signal())
	}
	return exitError{code: code}
}
