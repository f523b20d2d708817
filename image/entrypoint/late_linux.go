package entrypoint

import (
	"bufio"
	"net"
)

// maxLate is the most that a late configuration may be, in bytes.
const maxLate = 1 << 20

// late keeps what a server was told after its start, in memory alone, for the
// one that takes its place: keys stand on no disk. Its lines are the server's;
// nothing here reads them. Used by one server at a time.
type late struct{ line []byte }

// serve hands the kept line to a new server, an empty one where there is none,
// and keeps what it says. It ends with the server.
func (l *late) serve(conn *net.UnixConn) {
	defer conn.Close()
	if _, err := conn.Write(append(l.line[:len(l.line):len(l.line)], '\n')); err != nil {
		return
	}
	in := bufio.NewScanner(conn)
	in.Buffer(nil, maxLate)
	for in.Scan() {
		l.line = append([]byte(nil), in.Bytes()...)
	}
}
