package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// flushInput forgets what was typed before anything was asked: it must not
// answer a question that the user has not seen.
func flushInput(f *os.File) { _ = unix.IoctlSetInt(int(f.Fd()), unix.TCFLSH, unix.TCIFLUSH) }
