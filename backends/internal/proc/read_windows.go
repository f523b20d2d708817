package proc

import "io/fs"

const noWait = 0

func readableBy(fs.FileInfo, int) bool { return true }
