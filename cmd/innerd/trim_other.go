//go:build !linux

package main

import (
	"runtime"
	"runtime/debug"
)

// trim gives back what only the start, or the work before a rest, needed.
func trim() {
	runtime.GC() // see trim on Linux
	debug.FreeOSMemory()
}
