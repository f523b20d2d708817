//go:build unix && !linux

package proc

import "syscall"

// attributes of every child. The kernel does not end it when the server dies.
func attributes(*User) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
