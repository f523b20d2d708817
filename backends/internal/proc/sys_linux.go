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
func attributes(u *User) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if u != nil {
		a.Credential = &syscall.Credential{Uid: u.UID, Gid: u.GID, Groups: u.Groups}
	}
	return a
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

// processes lists all of them, and those that ended before they were read.
func processes() (all map[int]stat, gone []int, err error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, nil, err
	}
	all = make(map[int]stat, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		s, err := readStat(pid)
		switch {
		case err == nil:
			all[pid] = s
		case passing(err):
			gone = append(gone, pid)
		default:
			return nil, nil, err
		}
	}
	return all, gone, nil
}

// ticksPerSecond is the unit of start times; it is 100 wherever Linux runs.
const ticksPerSecond = 100

// bootTicks is the present on the clock of start times.
func bootTicks() uint64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return 1 << 62 // nobody is young
	}
	return uint64(now.Sec)*ticksPerSecond + uint64(now.Nsec)/(1e9/ticksPerSecond)
}
