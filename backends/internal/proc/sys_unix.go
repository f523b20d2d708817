//go:build unix

package proc

import (
	"io/fs"
	"os"
	"syscall"
)

// onlyDir opens a directory, and neither what a link leads to nor a pipe.
const onlyDir = syscall.O_DIRECTORY | syscall.O_NOFOLLOW

// signalGroup sends sig to the group that p leads. A stopped process takes no
// TERM before it goes on.
func signalGroup(p *os.Process, sig syscall.Signal) error {
	err := syscall.Kill(-p.Pid, sig)
	if sig == syscall.SIGTERM {
		_ = syscall.Kill(-p.Pid, syscall.SIGCONT)
	}
	return err
}

// theirs reports whether agents may put something into a directory: it is
// their group's, or another user's.
func (s *Supervisor) theirs(dir fs.FileInfo) bool {
	st, ok := dir.Sys().(*syscall.Stat_t)
	return ok && (int(st.Gid) == s.group && dir.Mode()&0o020 != 0 || st.Uid != 0 && int(st.Uid) != os.Geteuid())
}
