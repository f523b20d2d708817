package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"
)

const (
	// maxInput is the most that a file which is read at the start may hold.
	maxInput = 16 << 20
	// inputNotice is after how long it is said that a file is waited for.
	inputNotice = 3 * time.Second
)

// readInput reads a file that somebody has named. It may be a pipe, whose writer
// comes late or never: that is said, and waited for until ctx ends.
func (a *app) readInput(ctx context.Context, path string) ([]byte, error) {
	type result struct {
		raw []byte
		err error
	}
	done := make(chan result, 1)
	go func() { // ends with the file; one that gives nothing keeps it until the process ends
		raw, err := readWhole(path)
		done <- result{raw, err}
	}()
	notice := time.NewTimer(inputNotice)
	defer notice.Stop()
	for {
		select {
		case r := <-done:
			return r.raw, r.err
		case <-notice.C:
			a.warn("waiting for " + path + ": nobody has written all of it yet")
		case <-ctx.Done():
			return nil, fmt.Errorf("%s was not read: %w", path, context.Cause(ctx))
		}
	}
}

func readWhole(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	raw, err := io.ReadAll(io.LimitReader(f, maxInput+1))
	if err == nil && len(raw) > maxInput {
		err = fmt.Errorf("%s: is over %d MiB, and can't be what is meant", path, maxInput>>20)
	}
	return raw, err
}
