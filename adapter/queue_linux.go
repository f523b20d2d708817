package adapter

import (
	"context"
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

// hungUp reports whether the caller of a request sends nothing more: for
// net/http it is gone then, too.
func hungUp(ctx context.Context) (gone bool) {
	conn, _ := ctx.Value(connKey{}).(net.Conn)
	sc, is := conn.(syscall.Conn)
	if !is {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	_ = raw.Control(func(fd uintptr) {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(p, 0)
		gone = err == nil && n == 1 && p[0].Revents != 0
	})
	return gone
}
