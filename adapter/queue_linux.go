package adapter

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// unsent is how many bytes of a connection its peer has not taken yet.
func unsent(conn net.Conn) (n int, ok bool) {
	sc, is := conn.(syscall.Conn)
	if !is {
		return 0, false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return 0, false
	}
	cerr := raw.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) })
	return n, cerr == nil && err == nil
}
