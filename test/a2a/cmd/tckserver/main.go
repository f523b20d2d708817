// Command tckserver serves innerd's A2A binding with the agent that the
// official conformance kit expects, without keys, on loopback:
//
//	go run -tags nomsgpack ./test/a2a/cmd/tckserver -listen 127.0.0.1:18199 -grpc 127.0.0.1:18198
package main

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"innerd/test/a2a/rig"
)

func main() {
	o := rig.Options{}
	flag.StringVar(&o.Listen, "listen", "127.0.0.1:18199", "address of JSON-RPC and HTTP+JSON")
	flag.StringVar(&o.GRPC, "grpc", "", "address of gRPC; empty: none")
	flag.StringVar(&o.Dir, "state", "", "state directory; empty: in memory")
	flag.StringVar(&o.Default, "backend", "", "agent of messages that name none; empty: the kit's")
	flag.BoolVar(&o.BothRoot, "both", false, "a root card of both generations")
	flag.DurationVar(&o.Delay, "delay", 2*time.Second, "of slow scenarios")
	flag.Parse()
	o.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	s, err := rig.Start(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("listening", s.URL, s.GRPC)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	<-stop
	if err := s.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
