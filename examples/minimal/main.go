// Minimal is a host in thirty lines: one question, the answer as it comes.
//
//	INNERD_URL=http://127.0.0.1:18100 INNERD_KEY=… go run ./examples/minimal "What is in this folder?"
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"innerd/events"
	"innerd/host"
)

func main() {
	c, err := host.New(os.Getenv("INNERD_URL"), &host.Options{Key: os.Getenv("INNERD_KEY")})
	if err != nil {
		log.Fatal(err)
	}
	for ev, err := range c.Stream(context.Background(), host.Prompt("minimal", os.Args[1])) {
		if err != nil {
			log.Fatal(err)
		}
		switch d := ev.Data.(type) {
		case events.MessageDelta:
			fmt.Print(d.Delta)
		case events.Error:
			log.Fatal(d.Message)
		}
	}
	fmt.Println()
}
