package proc

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Sweep implements Starter. A look at /proc is not a snapshot: what forks while
// we look may be missed. So it looks until a look finds nothing, and where
// something was found it looks twice.
func (l *local) Sweep(ctx context.Context, t Target) error {
	l.mu.Lock()
	for _, id := range t.IDs {
		t.IDs = append(t.IDs, l.kin[id]...)
	}
	l.mu.Unlock()
	clean, need := 0, 1
	var left []int
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		found, err := look(t)
		switch {
		case err != nil:
			clean = 0 // out of descriptors, perhaps: nothing is known
		case len(found) == 0:
			if clean++; clean >= need {
				return nil
			}
			continue
		default:
			clean, need = 0, 2
			left = killAll(found)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return &LeftError{PIDs: left, Cause: errors.Join(context.Cause(ctx), err)}
		}
	}
}

// look finds the living processes that t names.
func look(t Target) ([]stat, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	k := newKin(all)
	k.spare[t.Spare] = true
	for _, id := range t.IDs {
		// Dead but not reaped, a leader still keeps its number.
		if s, ok := all[id.PID]; ok && s.start == id.Start {
			k.sessions[id.PID] = true
			k.add(s)
		}
	}
	for pid, s := range all {
		marked, err := isMarked(pid, t.Mark)
		if err != nil {
			return nil, err
		}
		if marked {
			k.add(s)
		}
	}
	k.grow()
	found := make([]stat, 0, len(k.hit))
	for pid := range k.hit {
		found = append(found, all[pid])
	}
	return found, nil
}

// descendants of a process that lives.
func descendants(id ID) []ID {
	all, err := processes()
	if err != nil || all[id.PID].start != id.Start {
		return nil
	}
	k := newKin(all)
	k.add(all[id.PID])
	k.grow()
	ids := make([]ID, 0, len(k.hit))
	for pid := range k.hit {
		if pid != id.PID {
			ids = append(ids, ID{PID: pid, Start: all[pid].start})
		}
	}
	return ids
}

// kin gathers processes that belong together. A child begins with a session of
// its own, and a process can leave its session but never join another's: so
// whoever shares a session with one of them descends from the child too.
type kin struct {
	all      map[int]stat
	hit      map[int]bool // the living ones
	sessions map[int]bool
	spare    map[int]bool // sessions that say nothing: our own, and one to be left alone
	self     int
}

func newKin(all map[int]stat) *kin {
	self := os.Getpid()
	return &kin{
		all: all, hit: map[int]bool{}, sessions: map[int]bool{}, self: self,
		spare: map[int]bool{all[self].session: true},
	}
}

func (k *kin) add(s stat) {
	if s.dead || s.pid == k.self {
		return
	}
	k.hit[s.pid] = true
	if !k.spare[s.session] {
		k.sessions[s.session] = true
	}
}

// grow adds children and members of sessions until there are no more.
func (k *kin) grow() {
	for before := -1; len(k.hit) > before; {
		before = len(k.hit)
		for pid, s := range k.all {
			if !k.hit[pid] && (k.hit[s.ppid] || k.sessions[s.session]) {
				k.add(s)
			}
		}
	}
}

func processes() (map[int]stat, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	all := make(map[int]stat, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		s, err := readStat(pid)
		switch {
		case err == nil:
			all[pid] = s
		case !passing(err):
			return nil, err
		}
	}
	return all, nil
}

func isMarked(pid int, mark string) (bool, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil && !passing(err) {
		return false, err
	}
	return hasMark(b, mark), nil
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
