// Command innerd is the server inside a sandbox and its command line: it reads
// flags and the environment, wires the named backends together, and passes
// signals on. What it wires lives in the other rooms.
package main

import (
	"context"
	"io"
	"os"

	"innerd/cmd/innerd/shield"
)

// app is what a command may touch of the process.
type app struct {
	in       io.Reader
	out, err io.Writer
	getenv   func(string) string
	tools    commands

	keyLines []string // of --api-key-file, until it is known what is redacted
}

func main() {
	if err := shield.Err(); err != nil {
		_, _ = io.WriteString(os.Stderr, "innerd: "+err.Error()+"\n")
		os.Exit(exitFailed)
	}
	a := &app{in: os.Stdin, out: os.Stdout, err: os.Stderr, getenv: shield.Getenv}
	os.Exit(a.main(context.Background(), os.Args[1:]))
}
