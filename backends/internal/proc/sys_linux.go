package proc

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// attributes of every child. A session of its own, not only a group: it has no
// controlling terminal then, so that a git or ssh below it that wants a
// password fails at once instead of stopping on, or reading from, the
// terminal of whoever started the server; and the session is one more thing
// by which the sweep finds what left the group.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// waitEnded blocks until the process has ended, and leaves it to be reaped.
func waitEnded(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// stat is what the sweep reads of /proc/PID/stat.
type stat struct {
	pid, ppid, group, session int
	start                     uint64
	dead                      bool // a zombie
}

func readStat(pid int) (stat, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, err
	}
	// The name, in parentheses, may itself have spaces and parentheses.
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 20 {
		return stat{}, errors.New("proc: short stat")
	}
	s := stat{pid: pid, dead: f[0] == "Z" || f[0] == "X"}
	s.ppid, _ = strconv.Atoi(f[1])
	s.group, _ = strconv.Atoi(f[2])
	s.session, _ = strconv.Atoi(f[3])
	s.start, err = strconv.ParseUint(f[19], 10, 64)
	return s, err
}

// startTime of a process in clock ticks since boot; 0 if it cannot be known.
func startTime(pid int) uint64 {
	s, _ := readStat(pid)
	return s.start
}

// bootID changes with every boot of the kernel; "" if it cannot be known.
func bootID() string {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return string(bytes.TrimSpace(b))
}
