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

// vitals is what a process holds of the machine.
type vitals struct {
	rss      int64 // bytes
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
	for line := range strings.Lines(string(status)) {
		switch name, value, _ := strings.Cut(line, ":"); name {
		case "VmRSS":
			_, err = fmt.Sscan(value, &v.rss)
			v.rss <<= 10
		case "Threads":
			_, err = fmt.Sscan(value, &v.threads)
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
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
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
