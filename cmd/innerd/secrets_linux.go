package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// secretsFD names the pipe in the environment of the second exec.
const secretsFD = "INNERD_SECRETS_FD"

// pipeRoom is what a pipe takes without anybody reading.
const pipeRoom = 64 << 10

// shield moves secrets out of the environment. What a process was started with
// stays readable in /proc/PID/environ, so it starts itself a second time, in
// place, without them, and hands them over in a pipe. It also closes memory
// and /proc files of this process to others of the same user.
func shield(args []string) (secrets, error) {
	if fd := os.Getenv(secretsFD); fd != "" {
		_ = os.Unsetenv(secretsFD)
		s, err := readSecrets(fd)
		hide()
		return s, err
	}
	if !takesKeys(args) {
		return nil, nil
	}
	env, taken := splitEnv(os.Environ())
	if len(taken) == 0 {
		hide()
		return nil, nil
	}
	return nil, reexec(args, env, taken)
}

// hide is best effort: where it is refused, docs/security.md still holds.
func hide() { _ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }

func splitEnv(environ []string) (env []string, taken secrets) {
	taken = secrets{}
	for _, e := range environ {
		name, v, _ := strings.Cut(e, "=")
		switch {
		case !isSecret(name):
			env = append(env, e)
		case v != "": // an empty one is as good as none
			taken[name] = v
		}
	}
	return env, taken
}

// reexec returns only where it failed.
func reexec(args, env []string, taken secrets) error {
	raw, err := json.Marshal(taken)
	if err != nil {
		return err
	}
	var p [2]int
	if err := unix.Pipe2(p[:], 0); err != nil {
		return fmt.Errorf("hand keys over: %w", err)
	}
	if len(raw) > pipeRoom {
		if _, err := unix.FcntlInt(uintptr(p[1]), unix.F_SETPIPE_SZ, len(raw)); err != nil {
			return errors.New("the keys in the environment are too long; use --api-key-file")
		}
	}
	w := os.NewFile(uintptr(p[1]), "secrets")
	if _, err := w.Write(raw); err != nil {
		return fmt.Errorf("hand keys over: %w", err)
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("hand keys over: %w", err)
	}
	env = append(env, secretsFD+"="+strconv.Itoa(p[0]))
	return fmt.Errorf("start again without keys in the environment: %w", unix.Exec(ownPath(), args, env))
}

// ownPath is the file of this program: by name where that still is, so that ps
// shows it.
func ownPath() string {
	if path, err := os.Executable(); err == nil {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return "/proc/self/exe"
}

func readSecrets(fd string) (secrets, error) {
	n, err := strconv.Atoi(fd)
	if err != nil || n < 3 {
		return nil, fmt.Errorf("%s is not for users", secretsFD)
	}
	unix.CloseOnExec(n)
	f := os.NewFile(uintptr(n), "secrets")
	defer f.Close()
	raw, err := io.ReadAll(f)
	if err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	s := secrets{}
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	return s, nil
}
