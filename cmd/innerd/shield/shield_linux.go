package shield

import (
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// pipeEnv names the pipe in the environment of the second start.
const pipeEnv = "INNERD_SECRETS_FD"

const (
	setPipeSize = 1031 // F_SETPIPE_SZ
	pipeRoom    = 64 << 10
)

func init() {
	fd := os.Getenv(pipeEnv)
	switch {
	case fd != "":
		_ = os.Unsetenv(pipeEnv)
		taken, failure = read(fd)
	case closed(os.Args):
	case !wanted(os.Args):
		return
	default:
		env, secrets := split(os.Environ())
		if len(secrets) > 0 {
			failure = again(env, secrets)
		}
	}
	// Memory and /proc files are closed to others of the same user. Best
	// effort: docs/security.md holds where it is refused.
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_DUMPABLE, 0, 0)
}

// split sorts an environment; an empty secret is as good as none.
func split(environ []string) (env []string, secrets []string) {
	for _, e := range environ {
		name, v, _ := strings.Cut(e, "=")
		switch {
		case !Secret(name):
			env = append(env, e)
		case v != "":
			secrets = append(secrets, e)
		}
	}
	return env, secrets
}

// again starts this program in place of itself. It returns only where that
// failed.
func again(env, secrets []string) error {
	text := strings.Join(secrets, "\x00")
	var p [2]int
	if err := syscall.Pipe2(p[:], 0); err != nil {
		return errors.New("hand keys over: " + err.Error())
	}
	if len(text) > pipeRoom {
		if _, _, e := syscall.RawSyscall(syscall.SYS_FCNTL, uintptr(p[1]), setPipeSize, uintptr(len(text))); e != 0 {
			return errors.New("the keys in the environment are too long; use --api-key-file")
		}
	}
	w := os.NewFile(uintptr(p[1]), "secrets")
	if _, err := w.WriteString(text); err != nil {
		return errors.New("hand keys over: " + err.Error())
	}
	if err := w.Close(); err != nil {
		return errors.New("hand keys over: " + err.Error())
	}
	err := syscall.Exec(ownPath(), os.Args, append(env, pipeEnv+"="+strconv.Itoa(p[0])))
	return errors.New("start again without keys in the environment: " + err.Error())
}

// ownPath is the file of this program: by name where that still is, so that ps
// shows it.
func ownPath() string {
	const self = "/proc/self/exe"
	path, err := os.Readlink(self)
	if err != nil {
		return self
	}
	if _, err := os.Stat(path); err != nil {
		return self
	}
	return path
}

func read(fd string) (map[string]string, error) {
	n, err := strconv.Atoi(fd)
	if err != nil || n < 3 {
		return nil, errors.New(pipeEnv + " is not for users")
	}
	syscall.CloseOnExec(n)
	f := os.NewFile(uintptr(n), "secrets")
	if f == nil {
		return nil, errors.New(pipeEnv + " is not for users")
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		return nil, errors.New("read keys: " + err.Error())
	}
	m := map[string]string{}
	for e := range strings.SplitSeq(string(text), "\x00") {
		if name, v, ok := strings.Cut(e, "="); ok {
			m[name] = v
		}
	}
	return m, nil
}
