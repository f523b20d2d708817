//go:build linux || darwin

package main

import (
	"bufio"
	"bytes"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// memoryLimit is how much memory this container, or machine, has; 0 where that
// can't be found out.
func memoryLimit() int64 {
	limit := machineMemory()
	for _, path := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64)
		if err == nil && n > 0 && (limit == 0 || n < limit) {
			limit = n
		}
	}
	return limit
}

func machineMemory() int64 {
	raw, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	sc := bufio.NewScanner(bytes.NewReader(raw))
	for sc.Scan() {
		if f := strings.Fields(sc.Text()); len(f) >= 2 && f[0] == "MemTotal:" {
			kb, _ := strconv.ParseInt(f[1], 10, 64)
			return kb << 10
		}
	}
	return 0
}

// garbage is by how many percent the heap may grow before it is collected.
// Most of a busy server's heap is frames and texts that live on, and the
// machine is the agents': half as much garbage costs a few percent of the
// server's time and saves a quarter of its memory.
const garbage = 50

// limitMemory keeps the server's own heap small, and to a quarter of what there
// is, so that it collects before the agents beside it are killed. GOGC and
// GOMEMLIMIT, which the runtime reads by itself, win.
func limitMemory(getenv func(string) string) {
	if getenv("GOGC") == "" {
		debug.SetGCPercent(garbage)
	}
	if getenv("GOMEMLIMIT") != "" {
		return
	}
	if n := memoryLimit(); n > 0 {
		debug.SetMemoryLimit(max(n/4, 256<<20))
	}
}
