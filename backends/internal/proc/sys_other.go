//go:build !linux

package proc

import (
	"context"
	"errors"
	"syscall"
)

// waitEnded cannot leave an ended process alone here.
func waitEnded(int) error { return errors.ErrUnsupported }

func startTime(int) uint64 { return 0 }

func descendants(ID) []ID { return nil }

func bootID() string { return "" }

// Sweep implements Starter. Without /proc it ends the groups of children that
// were not reaped, and finds nothing of an earlier server.
func (l *local) Sweep(_ context.Context, t Target) error {
	for _, id := range t.IDs {
		_ = l.Signal(id, syscall.SIGKILL, true)
	}
	return nil
}
