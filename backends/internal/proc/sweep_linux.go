package proc

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// maxUnsettled is how many looks in a row that found nothing may be in doubt:
// on a busy machine strangers come and go between any two.
const maxUnsettled = 10

// Sweep implements Starter. A look at /proc is no snapshot: who forks and ends
// while we look leaves a child that we have not listed. So it looks until a
// look finds nothing and is settled (see look).
func (l *local) Sweep(ctx context.Context, t Target) error {
	leaders := t.IDs
	l.mu.Lock()
	for _, id := range leaders {
		t.IDs = append(t.IDs, l.kin[id]...)
	}
	l.mu.Unlock()
	if l.sweeper != nil {
		return l.sweepAsUser(ctx, t)
	}
	return sweep(ctx, t, leaders)
}

// sweep looks and kills; the leaders, if dead, were so before it began.
func sweep(ctx context.Context, t Target, leaders []ID) error {
	known := map[int]uint64{}
	for _, id := range leaders {
		known[id.PID] = id.Start
	}
	return untilNone(ctx, func() ([]stat, bool, error) { return look(t, known) })
}

// untilNone looks and kills until there is nothing more. What is only in doubt
// when ctx ends was found by no look: it is not left.
func untilNone(ctx context.Context, look func() (found []stat, settled bool, err error)) error {
	var left []int
	doubts := 0
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		found, settled, err := look()
		switch {
		case err != nil: // out of descriptors, perhaps: nothing is known
		case len(found) > 0:
			left, doubts = killAll(found), 0
		case settled || doubts == maxUnsettled:
			return nil
		default:
			doubts++
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			if err == nil && len(found) == 0 {
				return nil
			}
			return &LeftError{PIDs: left, Cause: errors.Join(context.Cause(ctx), err)}
		}
	}
}

// look finds the living processes that t names. It is settled if each process
// that was there when it began was seen to bear no mark, by this look or one
// before (known, by pid and start): then none of them can have left a marked
// child either. One that ended before we came to it, or that is young and has
// no environment since it is just becoming its program, is in doubt.
func look(t Target, known map[int]uint64) (found []stat, settled bool, err error) {
	all, gone, err := processes()
	if err != nil {
		return nil, false, err
	}
	settled = !slices.ContainsFunc(gone, func(pid int) bool { _, ok := known[pid]; return !ok })
	k := newKin(all)
	spared, err := agentOf(all, t.Spare)
	if err != nil {
		return nil, false, err
	}
	for pid := range spared {
		k.spare[all[pid].session] = true
	}
	for _, id := range t.IDs {
		// Dead but not reaped, a leader still keeps its number.
		if s, ok := all[id.PID]; ok && s.start == id.Start {
			k.sessions[id.PID] = true
			k.add(s)
		}
	}
	young := bootTicks() - 2*ticksPerSecond
	for pid, s := range all {
		seen := known[pid] == s.start && s.start != 0
		if spared[pid] {
			if pid == t.Spare {
				known[pid] = s.start
			}
			continue
		}
		if s.dead {
			settled = settled && seen
			known[pid] = s.start
			continue
		}
		environ, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
		switch {
		case unknown(err) != nil:
			return nil, false, err
		case hasMark(environ, t.Mark) && hasVariable(environ, t.With):
			k.add(s)
		case len(environ) == 0 && !errors.Is(err, fs.ErrPermission) && s.start > young:
			settled = settled && seen
		default:
			known[pid] = s.start
		}
	}
	k.grow()
	for pid := range k.hit {
		found = append(found, all[pid])
	}
	return found, settled, nil
}

// agentOf is a child and what of it is the agent that we speak with: a script
// that does not become its agent, but waits for it, has lent it one of the
// pipes to us. Commands have others: an agent keeps these for itself, and one
// that a command has opened by its name in /proc is not the same. An error says
// that it cannot be known: who is not of it may be a stranger, and is ended.
func agentOf(all map[int]stat, child int) (map[int]bool, error) {
	chain := map[int]bool{}
	if _, ok := all[child]; !ok {
		return chain, nil
	}
	chain[child] = true
	var lent [2]string // stdin and stdout
	for fd := range lent {
		var err error
		if lent[fd], err = fileOf(child, fd); err != nil {
			return nil, err
		}
	}
	for before := 0; len(chain) > before; {
		before = len(chain)
		for pid, s := range all {
			if chain[pid] || !chain[s.ppid] {
				continue
			}
			has, err := hasAny(pid, lent)
			if err != nil {
				return nil, err
			}
			if has {
				chain[pid] = true
			}
		}
	}
	return chain, nil
}

// hasAny reports whether a process's stdin or stdout is that of files.
func hasAny(pid int, files [2]string) (bool, error) {
	for fd, file := range files {
		if file == "" {
			continue
		}
		if got, err := fileOf(pid, fd); err != nil || got == file {
			return err == nil, err
		}
	}
	return false, nil
}

// fileOf names a pipe that a process has open; "" if that is none, or is not
// ours to see. A pipe that was inherited has another name than one that was
// opened anew: the kernel marks what was opened by a path (O_LARGEFILE, whose
// value is each architecture's own).
func fileOf(pid, fd int) (string, error) {
	dir := "/proc/" + strconv.Itoa(pid)
	name, err := os.Readlink(dir + "/fd/" + strconv.Itoa(fd))
	if err != nil || !strings.HasPrefix(name, "pipe:") && !strings.HasPrefix(name, "socket:") {
		return "", unknown(err)
	}
	info, err := os.ReadFile(dir + "/fdinfo/" + strconv.Itoa(fd))
	if err != nil {
		return "", unknown(err)
	}
	_, flags, _ := strings.Cut(string(info), "flags:")
	flags, _, _ = strings.Cut(flags, "\n")
	n, _ := strconv.ParseUint(strings.TrimSpace(flags), 8, 64)
	// These can be changed at any time, by any who have it.
	n &^= unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_APPEND | unix.O_ASYNC | unix.O_DIRECT | unix.O_NOATIME
	return name + " " + strconv.FormatUint(n, 8), nil
}

// unknown is an error of ours, out of descriptors say, after which nothing is
// known of a process; nil for one that is the process's own.
func unknown(err error) error {
	if err == nil || passing(err) {
		return nil
	}
	return err
}

// passing errors are those of a process that has just ended or is not ours.
func passing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.ESRCH)
}

// killAll returns what it tried to kill.
func killAll(found []stat) []int {
	pids := make([]int, 0, len(found))
	for _, s := range found {
		kill(s)
		pids = append(pids, s.pid)
	}
	slices.Sort(pids)
	return pids
}

// kill ends the process that s was read of, and no other that got its number
// since: a pidfd stays with its process.
func kill(s stat) {
	fd, err := unix.PidfdOpen(s.pid, 0)
	if err != nil {
		if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EMFILE) {
			if startTime(s.pid) == s.start {
				_ = unix.Kill(s.pid, unix.SIGKILL)
			}
		}
		return
	}
	defer unix.Close(fd)
	if now, err := readStat(s.pid); err == nil && now.start == s.start {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
}
