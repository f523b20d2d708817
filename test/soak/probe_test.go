//go:build linux

package soak_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// memory is what a process holds of it, in bytes.
type memory struct {
	rss   int64 // all: of that
	anon  int64 // is its own,
	file  int64 // pages of files, its program's, which the kernel reads again where it took them back,
	shmem int64 // and shared
}

// raised is the higher of each.
func (m memory) raised(to memory) memory {
	return memory{rss: max(m.rss, to.rss), anon: max(m.anon, to.anon), file: max(m.file, to.file), shmem: max(m.shmem, to.shmem)}
}

// vitals is what a process holds of the machine.
type vitals struct {
	memory
	fds      int
	threads  int
	children int
	cpu      time.Duration
}

// look reads the vitals of a process from /proc. Of one that is gone, an error.
func look(pid int) (v vitals, err error) {
	dir := "/proc/" + strconv.Itoa(pid)
	status, err := os.ReadFile(dir + "/status")
	if err != nil {
		return v, err
	}
	sizes := map[string]*int64{"VmRSS": &v.rss, "RssAnon": &v.anon, "RssFile": &v.file, "RssShmem": &v.shmem}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		size := sizes[name]
		switch {
		case size != nil:
			_, err = fmt.Sscan(value, size)
			*size <<= 10
		case name == "Threads":
			_, err = fmt.Sscan(value, &v.threads)
		}
		if err != nil {
			return v, fmt.Errorf("%q: %w", line, err)
		}
	}
	fds, ferr := os.ReadDir(dir + "/fd")
	if err == nil {
		err = ferr
	}
	v.fds = len(fds)
	v.children = len(childrenOf(pid))
	stat, serr := os.ReadFile(dir + "/stat")
	if err == nil {
		err = serr
	}
	const user, system = 11, 12 // behind the name, which may hold anything
	if fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:])); len(fields) > system {
		u, _ := strconv.ParseInt(fields[user], 10, 64)
		s, _ := strconv.ParseInt(fields[system], 10, 64)
		v.cpu = time.Duration(u+s) * 10 * time.Millisecond
	}
	return v, err
}

// childrenOf are the children of a process, of all its threads.
func childrenOf(pid int) (out []string) {
	tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, task := range tasks {
		raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, task.Name())) // the thread may be gone
		out = append(out, strings.Fields(string(raw))...)
	}
	return out
}

// eventually waits for something that nothing announces.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	within(t, 3*time.Minute, what, is)
}

// within waits so long for something that nothing announces.
func within(t testing.TB, limit time.Duration, what string, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("it did not come to this: %s", what)
		}
	}
}
