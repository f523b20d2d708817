//go:build !linux

package main

import "runtime/debug"

// trim gives back what only the start, or the work before a rest, needed.
func trim() { debug.FreeOSMemory() }
