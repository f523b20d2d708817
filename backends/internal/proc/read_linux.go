package proc

import (
	"os"
	"strconv"
)

// nameOf is where an open file is now, whatever names led to it.
func nameOf(f *os.File) (string, error) {
	return os.Readlink("/proc/self/fd/" + strconv.Itoa(int(f.Fd())))
}
