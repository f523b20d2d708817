package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"golang.org/x/sys/unix"
)

// trim gives back what only the start, or the work before a rest, needed:
// garbage, and pages of this program's file, which are read again where they are
// needed again. A sandbox waits most of its life, and there are thousands on a
// machine.
func trim() {
	runtime.GC() // what pools hold, a long text that was written for one, outlives one collection
	debug.FreeOSMemory()
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer f.Close()
	var from, to uintptr // of the mapping that is being read; 0: not one of ours
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		line := sc.Text()
		switch {
		case strings.HasSuffix(line, self):
			from, to = 0, 0
			var mode string
			if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &mode); err != nil || strings.Contains(mode, "w") {
				from = 0
			}
		case from != 0 && strings.HasPrefix(line, "Anonymous:"):
			// Pages that were written (relocations, a debugger's) are in no file.
			if f := strings.Fields(line); len(f) > 1 && f[1] == "0" {
				drop(from, to)
			}
			from = 0
		}
	}
}

// drop unmaps pages of a file until they are read again.
func drop(from, to uintptr) {
	_, _, _ = unix.RawSyscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED)
}
