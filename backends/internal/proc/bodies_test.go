//go:build linux

package proc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"innerd/backends/internal/proc"
)

// The children that misbehave. What they print first says that they are ready.
func init() {
	maps.Copy(childBodies, map[string]func(){
		"once":    func() {},
		"forever": func() { say("ready"); forever() },
		"ignore-term": func() {
			signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
			say("ready")
			forever()
		},
		"daemon":  daemon,
		"forker":  forker,
		"fork-on": forker,
		"naked":   naked,
		"session": session, "session-shell": sessionShell,
		"parts":           func() { parts(func(*exec.Cmd) {}) },
		"parts-redirect":  func() { parts(redirected) },
		"wrapper":         func() { wrapper(false, func(*exec.Cmd) {}) },
		"wrapper-session": func() { wrapper(true, func(*exec.Cmd) {}) },
		"wrapper-tee":     func() { wrapper(false, func(c *exec.Cmd) { c.Stdout = tee{os.Stdout} }) },
		"stderr": func() {
			piece := bytes.Repeat([]byte("noise noise noise\n"), 4000)
			for range 500 {
				_, _ = os.Stderr.Write(piece)
			}
			fmt.Fprintln(os.Stderr, "the end")
		},
		"closes-stdout": func() {
			say("ready")
			_ = os.Stdout.Close()
			forever()
		},
		"closes-stdin": func() {
			_ = os.Stdin.Close()
			say("ready")
			forever()
		},
		"half": func() { fmt.Print("whole\nhal") },
		"long": func() {
			piece := bytes.Repeat([]byte("x"), 1<<20)
			for range 65 {
				_, _ = os.Stdout.Write(piece)
			}
			fmt.Print("\nnext\n")
			for range 5 {
				_, _ = os.Stdout.Write(piece)
			}
			fmt.Print("\nlast\n")
		},
		"bytes": func() { fmt.Print("a\x00b\n\xff\xfe\n\u0085\u2028\r\n\n") },
		"deaf":  deaf,
		"stopped": func() {
			say("ready")
			_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
			forever()
		},
		"secrets": func() {
			for fd := range uintptr(2) {
				b, _ := io.ReadAll(os.NewFile(3+fd, "secret"))
				fmt.Printf("%d %.10s\n", len(b), b)
			}
		},
		"pipes": func() {
			for pipe := range inheritedPipes {
				say(pipe)
			}
		},
		"supervisor": superviseTree,
		"panicker":   func() { say("ready"); forever() },
	})
}

func say(a ...any) { fmt.Println(a...) }

// forever ends with the process alone, or after a minute if a test fails.
func forever() { time.Sleep(time.Minute); os.Exit(98) }

// again makes a command that runs another body, with our stdout.
func again(body string, setsid bool) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVar+"="+body)
	cmd.Stdout = os.Stdout
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: setsid}
	return cmd
}

// daemon leaves a grandchild that has its own session and our stdout.
func daemon() {
	cmd := again("forever", true)
	if err := cmd.Start(); err != nil {
		os.Exit(97)
	}
	say("grandchild", cmd.Process.Pid)
}

// forker is a chain: each starts the next, in a session of its own, and ends.
func forker() {
	if os.Getenv(childVar) == "forker" {
		say("ready")
	}
	for range 2 {
		cmd := again("fork-on", true)
		cmd.Stdout = nil
		if os.Getenv("PROC_TEST_DEPTH") == strings.Repeat("x", 6) {
			cmd = again("forever", true)
		}
		cmd.Env = append(cmd.Env, "PROC_TEST_DEPTH="+os.Getenv("PROC_TEST_DEPTH")+"x")
		_ = cmd.Start()
	}
	if os.Getenv(childVar) == "forker" {
		forever()
	}
}

// naked has a grandchild without environment, in a session of its own.
func naked() {
	cmd := exec.Command("/bin/sleep", "60")
	cmd.Env = []string{"A=b"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		os.Exit(97)
	}
	say("grandchild", cmd.Process.Pid)
	forever()
}

// session ends at once; its shell, in a session of its own, has a child
// without environment that it does not wait for.
func session() {
	cmd := again("session-shell", true)
	if err := cmd.Start(); err != nil {
		os.Exit(97)
	}
	_ = cmd.Wait()
}

func sessionShell() {
	cmd := exec.Command("/bin/sh", "-c", "env -i /bin/sleep 60 & echo grandchild $!")
	cmd.Stdout = os.Stdout
	if err := cmd.Run(); err != nil {
		os.Exit(97)
	}
	_ = again("forever", false).Start() // of the same session, and marked
}

// parts has two commands, each with a mark of its own; one is in its session.
func parts(start func(*exec.Cmd)) {
	for _, part := range []string{"A", "B"} {
		cmd := again("forever", part == "B")
		cmd.Env = append(cmd.Env, "INNERD_MARK="+os.Getenv("INNERD_MARK")+"."+part, "TEST_SESSION="+part)
		cmd.Stdout = nil
		start(cmd)
		if err := cmd.Start(); err != nil {
			os.Exit(97)
		}
	}
	say("ready")
	forever()
}

// redirected is a command that takes its agent's pipes for its own, as with
// </proc/$PPID/fd/0 >/proc/$PPID/fd/1. Where they were made by another user it
// may not, and is a command as all others.
func redirected(cmd *exec.Cmd) {
	in, err := os.Open("/proc/self/fd/0")
	if errors.Is(err, fs.ErrPermission) && os.Getuid() != 0 {
		return
	}
	if err != nil {
		os.Exit(97)
	}
	out, err := os.OpenFile("/proc/self/fd/1", os.O_WRONLY, 0)
	if err != nil {
		os.Exit(97)
	}
	cmd.Stdin, cmd.Stdout = in, out
}

// wrapper is a script that starts its agent and waits for it.
func wrapper(setsid bool, stdout func(*exec.Cmd)) {
	cmd := again("parts", setsid)
	cmd.Stdin = os.Stdin
	stdout(cmd)
	_ = cmd.Run()
}

// tee is no file, so that the agent gets another pipe than ours.
type tee struct{ io.Writer }

// deaf writes 8 MiB before it reads at all, then says how much it was sent.
func deaf() {
	line := bytes.Repeat([]byte("y"), 8191)
	for range 1024 {
		_, _ = os.Stdout.Write(append(line, '\n'))
	}
	n, _ := io.Copy(io.Discard, os.Stdin)
	say("read", n)
}

// inheritedPipes are those that whoever runs the tests has left open for us.
var inheritedPipes = openPipes()

func openPipes() map[string]bool {
	pipes := map[string]bool{}
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		if to, _ := os.Readlink("/proc/self/fd/" + e.Name()); strings.HasPrefix(to, "pipe:") {
			pipes[to] = true
		}
	}
	return pipes
}

// superviseTree is a server that will be killed: its child has a grandchild.
func superviseTree() {
	s := proc.New(proc.Options{StateDir: os.Getenv("PROC_TEST_STATE"), ServerID: os.Getenv("PROC_TEST_ID")})
	env := s.Environ(map[string]string{childVar: "daemon-stays"})
	c, err := s.Start(context.Background(), proc.Command{
		Name: "tree", Path: os.Args[0], Env: env, OnLine: func(b []byte) { say(string(b)) },
	})
	if err != nil {
		say("error", err)
		return
	}
	say("child", c.PID())
	forever()
}

func init() {
	childBodies["daemon-stays"] = func() { daemon(); forever() }
}
