// Command modelstub serves one script as a model provider, until it is
// interrupted. It prints the address that an agent takes as its base URL.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"innerd/test/modelstub"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("modelstub", flag.ContinueOnError)
	fs.SetOutput(stderr)
	listen := fs.String("listen", "127.0.0.1:0", "address to listen on")
	script := fs.String("script", "", "file with the script; without one every answer is \"(script over)\"")
	if err := fs.Parse(args); err != nil {
		return 2
	}
	if err := serve(ctx, *listen, *script, stdout); err != nil {
		fmt.Fprintln(stderr, "modelstub:", err) //nolint:errcheck // nowhere else to say it
		return 1
	}
	return 0
}

func serve(ctx context.Context, listen, script string, stdout io.Writer) error {
	js := []byte(`{"key":""}`)
	if script != "" {
		var err error
		if js, err = os.ReadFile(script); err != nil {
			return err
		}
	}
	stub, err := modelstub.Listen(listen)
	if err != nil {
		return err
	}
	defer stub.Close()
	sc, err := stub.Script(js)
	if err != nil {
		return fmt.Errorf("%s: %w", script, err)
	}
	if _, err := fmt.Fprintln(stdout, sc.BaseURL()); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
