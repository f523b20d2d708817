package proc

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// Starter starts, signals and sweeps processes: in this process, or, where the
// server has given up the right to, in a privileged one at the other end of a
// socket. So its arguments are plain data, but for the files, which a socket
// can carry too. Its methods may be called at the same time.
type Starter interface {
	// Start starts spec as the leader of its own session, with files as its
	// descriptors 0, 1, 2, …; it is killed when the server dies. The files
	// stay the caller's. On error nothing is left.
	Start(spec Spec, files []*os.File) (ID, error)
	// Wait blocks until the process has ended. Its id stays taken until Reap,
	// so that signals to its group cannot reach a stranger.
	Wait(id ID) error
	// Signal sends sig to the process, or to all of its group; then what
	// descends from it at this moment belongs to it for Sweep, since an
	// orphan could no longer be told. An ended process is no error.
	Signal(id ID, sig syscall.Signal, group bool) error
	// Sweep kills all that t names, again and again until nothing is left or
	// ctx ends; then the error is a *LeftError.
	Sweep(ctx context.Context, t Target) error
	// Reap releases an ended process and says how it ended.
	Reap(id ID) (Status, error)
}

// Spec is what to start.
type Spec struct {
	Path string   `json:"path"` // absolute
	Args []string `json:"args"` // with the name
	Env  []string `json:"env"`
	Dir  string   `json:"dir,omitempty"`
}

// ID names one process for ever: numbers are used again, a number with its
// start time is not.
type ID struct {
	PID   int    `json:"pid,omitempty"`
	Start uint64 `json:"start,omitempty"` // clock ticks since boot, field 22 of /proc/PID/stat; 0: not known
}

// Status is how a process ended.
type Status struct {
	Code   int            `json:"code"` // -1 when a signal ended it
	Signal syscall.Signal `json:"signal,omitempty"`
}

// Target is what a sweep ends: the processes of IDs that still are what they
// were, everything that bears the mark, what shares a session with one of
// these, and the descendants of all.
type Target struct {
	IDs   []ID   `json:"ids,omitempty"`
	Mark  string `json:"mark"`            // a whole mark, or the first parts of one
	Spare int    `json:"spare,omitempty"` // a child that is left alone, with the agent in it; of their sessions only the marked are ended
	With  string `json:"with,omitempty"`  // a variable, as NAME=value, that the marked must have too
}

// markName is the variable that every child and all it starts have in their environment.
const markName = "INNERD_MARK"

// hasMark reports whether an environment, as the kernel shows it, bears mark
// or one that begins with mark and a dot.
func hasMark(environ []byte, mark string) bool {
	for entry := range strings.SplitSeq(string(environ), "\x00") {
		if v, ok := strings.CutPrefix(entry, markName+"="); ok {
			if rest, ok := strings.CutPrefix(v, mark); ok && (rest == "" || rest[0] == '.') {
				return true
			}
		}
	}
	return false
}

// hasVariable reports whether an environment has kv; an empty kv stands in all.
func hasVariable(environ []byte, kv string) bool {
	if kv == "" {
		return true
	}
	for entry := range strings.SplitSeq(string(environ), "\x00") {
		if entry == kv {
			return true
		}
	}
	return false
}

// LeftError says which processes a sweep could not end.
type LeftError struct {
	PIDs  []int
	Cause error
}

func (e *LeftError) Error() string {
	return fmt.Sprintf("proc: processes %v are still there: %v", e.PIDs, e.Cause)
}

func (e *LeftError) Unwrap() error { return e.Cause }
