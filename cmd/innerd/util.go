package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/signal"

	"innerd/host"
)

// interruptible ends with the first interrupt; the second one ends the
// process, as if nobody listened.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(ctx)
	c := make(chan os.Signal, 1)
	signal.Notify(c, stopSignals()...)
	go func() { // ends with ctx
		defer signal.Stop(c)
		select {
		case <-c:
			stop()
		case <-ctx.Done():
		}
	}()
	return ctx, stop
}

func isStatus(err error, status int) bool {
	var e *host.Error
	return errors.As(err, &e) && e.Status == status
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
