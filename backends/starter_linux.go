package backends

import (
	"io"

	"innerd/backends/internal/proc"
)

// SweepMain is the work of a sweeper, see StarterAs.
func SweepMain(in io.Reader, out io.Writer) error { return proc.SweepMain(in, out) }

// NewOrphans makes an Orphans. Call Reap at every SIGCHLD.
func NewOrphans() *Orphans { return proc.NewOrphans() }
