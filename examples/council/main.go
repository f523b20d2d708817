// Council asks several agents or models of a shared server the same question
// at once, shows what each says, and has one of them put the answers together.
//
//	INNERD_URL=… INNERD_KEY=… go run ./examples/council -members claude-code:opus,codex -chair claude-code "Is this a good idea?"
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"

	"innerd/events"
	"innerd/host"
)

func main() {
	members := flag.String("members", "claude-code,codex", "backend or backend:model, separated by commas")
	chair := flag.String("chair", "claude-code", "who puts the answers together")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	c, err := host.New(os.Getenv("INNERD_URL"), &host.Options{Key: os.Getenv("INNERD_KEY")})
	if err != nil {
		log.Fatal(err)
	}
	council := host.Council{Synthesis: member(c, *chair)}
	for _, m := range strings.Split(*members, ",") {
		council.Members = append(council.Members, member(c, m))
	}
	var verdict *host.Verdict
	for ev, err := range council.Ask(ctx, host.Prompt("", flag.Arg(0))) {
		if err != nil {
			log.Fatal(err)
		}
		switch {
		case ev.Verdict != nil:
			verdict = ev.Verdict
		case ev.Opinion != nil && ev.Opinion.Err != nil:
			fmt.Printf("%s failed: %v\n", ev.Member, ev.Opinion.Err)
		case ev.Opinion != nil && !ev.Synthesis:
			fmt.Printf("%s: %s\n", ev.Member, ev.Opinion.Outcome.Text())
		case ev.Synthesis:
			if d, ok := ev.Event.Data.(events.MessageDelta); ok {
				fmt.Print(d.Delta)
			}
		}
	}
	fmt.Printf("\ncost: $%s\n", verdict.Cost)
}

func member(c *host.Client, s string) host.Member {
	backend, model, _ := strings.Cut(s, ":")
	return host.Member{Strategy: host.Delegated(c, backend), Backend: backend, Model: model}
}
