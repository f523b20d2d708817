//go:build linux

package faults_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// grown is a file that a command writes to for ever, also when it is asked to
// stop.
type grown struct{ path, command string }

func growing(r *rig, number int) grown {
	path := filepath.Join(r.Dir, fmt.Sprintf("grows-%d", number))
	return grown{path, fmt.Sprintf(`trap "" TERM INT HUP; while :; do echo x >> %s; sleep 0.02; done`, path)}
}

func (g grown) size() int64 {
	info, err := os.Stat(g.path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// holders are the processes whose command line speaks of the file.
func (g grown) holders() (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range all {
		raw, _ := os.ReadFile(p) // it may be gone
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(p))); err == nil && bytes.Contains(raw, []byte(g.path)) {
			pids = append(pids, pid)
		}
	}
	return pids
}
