// Fallback is a host with an inner loop of its own: the agent in the sandbox
// answers, with three tools of the host's; when it can't, the host goes on by
// itself, with the same tools, from where the agent stopped.
//
//	INNERD_URL=http://127.0.0.1:18100 INNERD_KEY=… go run ./examples/fallback "How warm is it in Oslo?" "And tomorrow?"
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log"
	"os"
	"os/signal"

	"innerd/events"
	"innerd/host"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	c, err := host.New(os.Getenv("INNERD_URL"), &host.Options{Key: os.Getenv("INNERD_KEY")})
	if err != nil {
		log.Fatal(err)
	}
	// No server, no key, no agent: an error here, and not a bill at the end of the month.
	loop, err := host.NewInnerLoop(ctx, c, host.Native(native), &host.LoopOptions{Backend: os.Getenv("INNERD_BACKEND")})
	if err != nil {
		log.Fatal(err)
	}
	var history []host.Request
	for _, question := range os.Args[1:] {
		req := host.Prompt("fallback", question)
		if n := len(history); n > 0 {
			req.Messages = append(history[n-1].Messages, req.Messages...)
		}
		req.Tools = tools()
		o := answer(ctx, loop, req)
		req.Messages = append(req.Messages, o.History()...)
		history = append(history, req)
	}
	fmt.Println("the breaker is", loop.Breaker())
}

// answer shows one answer as it comes.
func answer(ctx context.Context, s host.Strategy, req host.Request) *host.Outcome {
	o := &host.Outcome{}
	for ev, err := range s.Respond(ctx, req) {
		if err != nil {
			log.Fatal(err)
		}
		o.Add(ev)
		switch d := ev.Data.(type) {
		case events.MessageDelta:
			fmt.Print(d.Delta)
		case events.ToolRequest:
			fmt.Printf("[%s %s]", d.ToolName, d.Arguments)
		case *host.Fallback:
			fmt.Printf("\n[native from %d: %s; the breaker is %s]\n", d.From, d.Message, d.Breaker)
		case events.Usage:
			fmt.Printf("\n[billed to %s]", d.Backend)
		}
	}
	fmt.Println()
	return o
}

type city struct {
	City string `json:"city" jsonschema_description:"name of a city"`
}

type forecast struct {
	city
	Days int    `json:"days" jsonschema:"minimum=1,maximum=7"`
	Unit string `json:"unit,omitempty" jsonschema:"enum=celsius,enum=fahrenheit"`
}

func tools() []host.ToolDef {
	return []host.ToolDef{
		host.Tool("temperature", "The temperature of now", func(_ context.Context, in city) (string, error) {
			return fmt.Sprintf("%d degrees in %s", len(in.City), in.City), nil
		}),
		host.Tool("forecast", "The temperatures of the next days", func(_ context.Context, in forecast) ([]int, error) {
			if in.Days < 1 || in.Days > 7 {
				return nil, fmt.Errorf("%d days can't be foreseen", in.Days)
			}
			return make([]int, in.Days), nil
		}),
		host.Tool("map", "A map of a city", func(_ context.Context, in city) ([]events.Part, error) {
			return []events.Part{events.Text("a map of " + in.City), host.Image("image/png", pixel)}, nil
		}),
	}
}

// native stands for the host's own loop: a model of its own, and the tools.
func native(ctx context.Context, req host.Request) iter.Seq2[events.Event, error] {
	now := req.Tools[0].Call(ctx, json.RawMessage(`{"city":"Rome"}`))
	text := "I answer myself: " + now.Text
	if fb := req.Fallback; fb != nil && fb.From > 0 {
		text = "And from here myself: " + now.Text
	}
	return host.Say(text, &events.Usage{Backend: "native"})
}

// pixel is a PNG.
var pixel = []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89" +
	"\x00\x00\x00\rIDATx\x9cc\xf8\xcf\xc0\xf0\x1f\x00\x05\x00\x01\xff\x89\x99=\x1d\x00\x00\x00\x00IEND\xaeB`\x82")
