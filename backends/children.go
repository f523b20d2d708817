package backends

import "innerd/backends/internal/proc"

// Children starts the processes of agents and sees to their end; one per
// server, shared by all backends. Close it after them.
type Children = proc.Supervisor

// ChildrenOptions says where children are recorded and what they inherit.
type ChildrenOptions = proc.Options

// NewChildren makes the server's Children. Call Recover on it before the
// server is ready: it ends what a killed server has left.
func NewChildren(o ChildrenOptions) *Children { return proc.New(o) }
