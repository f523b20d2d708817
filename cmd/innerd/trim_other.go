//go:build !linux

package main

import "runtime/debug"

// trim gives back what only the start needed.
func trim() { debug.FreeOSMemory() }
