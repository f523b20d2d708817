//go:build linux

package main

import (
	"bufio"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"innerd/test/agents"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"innerd/backends"
)

// console is a user's terminal: the test types and reads on its other side.
type console struct {
	t      *testing.T
	keys   *os.File // the user's side
	tty    *os.File // innerd's side
	lines  chan string
	before unix.Termios
}

func newConsole(t *testing.T) *console {
	t.Helper()
	keys, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := pty.Setsize(keys, &pty.Winsize{Rows: 33, Cols: 101}); err != nil {
		t.Fatal(err)
	}
	c := &console{t: t, keys: keys, tty: tty, lines: make(chan string, 100), before: termios(t, tty)}
	go func() { // ends when the terminal is closed
		defer close(c.lines)
		for sc := bufio.NewScanner(keys); sc.Scan(); {
			c.lines <- strings.TrimRight(sc.Text(), "\r")
		}
	}()
	t.Cleanup(func() {
		_ = tty.Close()
		_ = keys.Close()
	})
	return c
}

func termios(t *testing.T, f *os.File) unix.Termios {
	t.Helper()
	st, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return *st
}

// see waits for a line with some words.
func (c *console) see(words string) string {
	c.t.Helper()
	late := time.After(time.Minute)
	for {
		select {
		case line, ok := <-c.lines:
			if !ok {
				c.t.Fatalf("the terminal ended before %q", words)
			}
			if strings.Contains(line, words) {
				return line
			}
		case <-late:
			c.t.Fatalf("%q did not come", words)
		}
	}
}

func (c *console) types(s string) {
	c.t.Helper()
	if _, err := c.keys.WriteString(s); err != nil {
		c.t.Fatal(err)
	}
}

// runs starts a fake vendor's login on the terminal.
func (c *console) runs(script string) <-chan error {
	c.t.Helper()
	path := filepath.Join(c.t.TempDir(), "vendor")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		c.t.Fatal(err)
	}
	done := make(chan error, 1)
	a := &app{in: c.tty, out: c.tty, err: os.Stderr, getenv: os.Getenv}
	go func() {
		done <- a.onTerminal(c.tty, c.tty, backends.LoginCommand{Path: path, Args: []string{"login"}, Env: []string{"PATH=" + os.Getenv("PATH"), "VENDOR_HOME=/there"}}, nil)
	}()
	return done
}

func (c *console) ends(done <-chan error, code int) {
	c.t.Helper()
	select {
	case err := <-done:
		var exit exitError
		if code == 0 && err != nil || code != 0 && (!errors.As(err, &exit) || exit.code != code) {
			c.t.Errorf("ended with %v, want %d", err, code)
		}
	case <-time.After(time.Minute):
		c.t.Fatal("it did not end")
	}
	if got := termios(c.t, c.tty); got != c.before {
		c.t.Errorf("the terminal is not as it was: %+v", got)
	}
}

// TestLoginOnATerminal: the vendor's program has a real terminal of the same
// size, gets each key as it is typed, and its code is ours.
func TestLoginOnATerminal(t *testing.T) {
	c := newConsole(t)
	done := c.runs(`test -t 0 && test -t 1 && test -t 2 && echo "a terminal of $(stty size), $1, $VENDOR_HOME"
stty -echo -icanon
echo "press a key"
key=$(dd bs=1 count=1 2>/dev/null)
echo "key $key"
stty sane
read line
echo "line $line"
exit 7
`)
	if got := c.see("a terminal"); got != "a terminal of 33 101, login, /there" {
		t.Errorf("%q", got)
	}
	c.see("press a key")
	c.types("y")
	c.see("key y")
	c.types("the code\r")
	c.see("line the code")
	c.ends(done, 7)
}

// TestLoginSize: the vendor's terminal grows with ours.
func TestLoginSize(t *testing.T) {
	c := newConsole(t)
	done := c.runs(`trap 'echo "now $(stty size)"; exit 0' WINCH
echo ready
while :; do sleep 0.05; done
`)
	c.see("ready")
	if err := pty.Setsize(c.keys, &pty.Winsize{Rows: 50, Cols: 132}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGWINCH); err != nil { // the kernel tells only the terminal's own session
		t.Fatal(err)
	}
	c.see("now 50 132")
	c.ends(done, 0)
}

// TestLoginSignals: Ctrl-C is a key and reaches the program; a signal to us is
// passed on, and a program that does not care is ended.
func TestLoginSignals(t *testing.T) {
	interrupts(t)

	c := newConsole(t)
	done := c.runs("echo ready\nexec sleep 60\n")
	c.see("ready")
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c.ends(done, 128+15)

	c = newConsole(t)
	done = c.runs("trap '' TERM\necho ready\nwhile :; do sleep 0.05; done\n")
	c.see("ready")
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c.ends(done, 128+9)
}

// interrupts types Ctrl-C to a program that awaits it.
func interrupts(t *testing.T) {
	t.Helper()
	c := newConsole(t)
	done := c.runs(`trap 'echo interrupted; exit 9' INT
echo ready
while :; do sleep 0.05; done
`)
	c.see("ready")
	c.types("\x03")
	c.see("interrupted")
	c.ends(done, 9)
}

// TestLoginFromTheBackground: who is started with SIGINT ignored, as a script's
// background jobs are, does not pass that on: the login's Ctrl-C works. So the
// signals are listened to from before the program's start, and none is lost
// between the two: what it inherits is the only trace of that order.
func TestLoginFromTheBackground(t *testing.T) {
	signal.Ignore(syscall.SIGINT)
	t.Cleanup(func() { signal.Reset(syscall.SIGINT) })
	interrupts(t)
}

// TestLoginOutputIsWhole: what is printed right before the end comes through.
func TestLoginOutputIsWhole(t *testing.T) {
	c := newConsole(t)
	done := c.runs("i=0\nwhile [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done\necho the last\n")
	n := 0
	for line := range c.lines {
		if line == "the last" {
			break
		}
		if strings.HasPrefix(line, "line ") {
			n++
		}
	}
	if n != 2000 {
		t.Errorf("%d lines", n)
	}
	c.ends(done, 0)
}

// TestLoginIsUsed: what the vendor's own login leaves is what the server uses,
// for every agent that has one, and doctor says so; it belongs to whom the
// agents' home belongs to.
func TestLoginIsUsed(t *testing.T) {
	for name, c := range map[string]struct{ env, version, leaves string }{
		"claude-code": {"INNERD_CLAUDE_CODE_PATH", "2.0.0 (Claude Code)", `echo '{"claudeAiOauth":{}}' > "$CLAUDE_CONFIG_DIR/.credentials.json"`},
		"codex":       {"INNERD_CODEX_PATH", "codex-cli 0.1.0", `echo '{"tokens":{}}' > "$CODEX_HOME/auth.json"`},
		"copilot":     {"INNERD_COPILOT_PATH", "1.0.0", `echo '{"loggedInUsers":[{"login":"me"}],"copilotTokens":{"x":"y"}}' > "$COPILOT_HOME/config.json"`},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHome(t)
			fake := filepath.Join(h.dir, "vendor")
			script := "#!/bin/sh\ncase \"$*\" in *ersion*) echo '" + c.version + "'; exit;; esac\ntest -t 0 || exit 9\n" + c.leaves + " || exit 8\necho as $(id -u), code?\nread code\necho \"logged in with $code\"\nexit 3\n"
			agents.WriteProgram(t, fake, script)
			h.env = append(h.env, c.env+"="+fake)
			uid := os.Getuid()
			if uid == 0 { // agents have a user of their own, then
				uid = 65534
				if err := errors.Join(os.MkdirAll(filepath.Join(h.dir, "agents"), 0o755), os.Chown(filepath.Join(h.dir, "agents"), uid, uid), os.Chmod(h.dir, 0o755), os.Chmod(filepath.Dir(h.dir), 0o755)); err != nil {
					t.Fatal(err)
				}
			}
			con := newConsole(t)
			cmd := h.command(t.Context(), "login", name)
			cmd.Stdin, cmd.Stdout, cmd.Stderr = con.tty, con.tty, con.tty
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			con.see("as " + strconv.Itoa(uid))
			con.types("the-code\r")
			con.see("logged in with the-code")
			if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 3 {
				t.Errorf("%v", err)
			}
			r := h.run("doctor")
			for line := range strings.Lines(r.out) {
				if strings.Contains(line, name) && strings.Contains(line, "by login: the login in "+h.dir) && strings.Contains(line, "tested with") {
					return
				}
			}
			t.Errorf("doctor: %s", r.out)
		})
	}
}

func TestLoginRefused(t *testing.T) {
	h := newHome(t)
	if r := h.run("login", "simulate"); r.code != 2 || !strings.Contains(r.err, "no login") {
		t.Errorf("%d %s", r.code, r.err)
	}
	if r := h.run("login"); r.code != 2 {
		t.Errorf("%d %s", r.code, r.err)
	}
}
