//go:build !linux

package proc

// Orphans is for process 1 of a container, which is Linux's.
type Orphans struct{}

// Start runs start.
func (o *Orphans) Start(start func() (pid int, err error)) error { _, err := start(); return err }

// Reaped does nothing.
func (o *Orphans) Reaped(int) {}
