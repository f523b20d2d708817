//go:build unix

package backends

import (
	"context"
	"net"

	"innerd/backends/internal/proc"
)

// Where a server has given up the rights to start agents as another user, the
// process that kept them does it: it serves what a Starter of RemoteStarter
// asks for.
type (
	// Starter starts, signals and sweeps processes.
	Starter = proc.Starter
	// Process is what to start, ProcessID a process for ever, ProcessEnd how it ended.
	Process    = proc.Spec
	ProcessID  = proc.ID
	ProcessEnd = proc.Status
	// ProcessTarget is what a sweep ends.
	ProcessTarget = proc.Target
	// User is whom processes run as.
	User = proc.User
	// Orphans reaps what process 1 inherits.
	Orphans = proc.Orphans
)

// RemoteStarter starts what its far end, at the other side of conn, serves.
func RemoteStarter(conn *net.UnixConn) Starter { return proc.NewRemote(conn) }

// ServeStarter is the far end of a RemoteStarter; see there. It returns when
// conn is closed and everything that was started over it has ended.
func ServeStarter(ctx context.Context, conn *net.UnixConn, s Starter) error {
	return proc.ServeStarter(ctx, conn, s)
}

// StarterAs starts processes of another user; sweeper is a command line that
// calls SweepMain. An io.Closer.
func StarterAs(u User, sweeper []string, orphans *Orphans) Starter {
	return proc.NewLocalAs(u, sweeper, orphans)
}
