//go:build unix

package proc

import (
	"io/fs"
	"syscall"
)

const noWait = syscall.O_NONBLOCK

// readableBy reports whether everybody, or a group, may read a file.
func readableBy(info fs.FileInfo, group int) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return info.Mode()&0o004 != 0 || ok && int(st.Gid) == group && info.Mode()&0o040 != 0
}
