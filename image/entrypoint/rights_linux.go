package entrypoint

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// dropRights keeps what starting and ending processes of other users takes,
// and lets nothing that is started gain rights by a setuid file. In a build
// with cgo the rights cannot be dropped for all threads; then they stay.
func dropRights() error {
	_, _, e := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0)
	if e == syscall.ENOTSUP {
		return errors.ErrUnsupported
	}
	if e != 0 {
		return fmt.Errorf("no_new_privs: %w", e)
	}
	const keep = 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID | 1<<unix.CAP_KILL
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var has [2]unix.CapUserData
	if err := unix.Capget(&head, &has[0]); err != nil {
		return fmt.Errorf("read capabilities: %w", err)
	}
	want := [2]unix.CapUserData{{Permitted: has[0].Permitted & keep, Effective: has[0].Permitted & keep}}
	_, _, e = syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&head)), uintptr(unsafe.Pointer(&want[0])), 0)
	if e != 0 {
		return fmt.Errorf("drop capabilities: %w", e)
	}
	return nil
}

// canSwitch reports whether this process may become other users.
func canSwitch() bool {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var has [2]unix.CapUserData
	if err := unix.Capget(&head, &has[0]); err != nil {
		return false
	}
	const need = 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID | 1<<unix.CAP_KILL
	return has[0].Effective&need == need
}
