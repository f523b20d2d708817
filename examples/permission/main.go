// Permission is a host whose user is asked: before the agent runs a tool of its
// own, before it runs a dangerous one of the host's, for what only the user
// knows, and when the agent has a question.
//
//	INNERD_URL=http://127.0.0.1:18100 INNERD_KEY=… go run ./examples/permission "Clean this folder up"
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strings"
	"sync"

	"innerd/adapter/api"
	"innerd/events"
	"innerd/host"
)

var (
	lines = bufio.NewScanner(os.Stdin)
	turn  sync.Mutex // one question at a time: requests come side by side
)

// ask puts a question to the user and gives the line that they type.
func ask(format string, args ...any) string {
	turn.Lock()
	defer turn.Unlock()
	fmt.Printf("\n? "+format+" ", args...)
	lines.Scan()
	return strings.TrimSpace(lines.Text())
}

type parcel struct {
	Item    string `json:"item"`
	Address string `json:"address"`
}

type path struct {
	Path string `json:"path"`
}

func main() {
	c, err := host.New(os.Getenv("INNERD_URL"), &host.Options{Key: os.Getenv("INNERD_KEY")})
	if err != nil {
		log.Fatal(err)
	}
	remove := host.Tool("remove", "Removes a file for good", func(_ context.Context, in path) (string, error) {
		return "removed " + in.Path, nil
	})
	remove.RequiresConfirmation = true
	send := host.Tool("send", "Sends something to the user", func(_ context.Context, in parcel) (string, error) {
		return "sent " + in.Item + " to " + in.Address, nil
	})
	send.RequiresInput = []string{"address"} // the model is not asked for it

	req := host.Prompt("", os.Args[1])
	req.Tools = []host.ToolDef{remove, send}
	req.Metadata.PermissionMode, req.Metadata.Interactive = api.PermissionAsk, true
	req.Permission = func(_ context.Context, r events.PermissionRequest) (host.Decision, error) {
		yes := ask("may the agent run %s %s?", r.Tool, r.Input) == "yes"
		for _, o := range r.Options {
			if yes == (o.Kind == events.AllowOnce) && o.Kind != events.AllowAlways {
				return host.Decision{Option: o.ID, Message: "the user decided"}, nil
			}
		}
		return host.Decision{}, fmt.Errorf("no option fits") // which denies
	}
	req.Question = func(_ context.Context, q host.Question) (json.RawMessage, error) {
		return json.Marshal(ask("%s %s", q.Message, q.Refused))
	}
	var pauses sync.WaitGroup
	for ev, err := range c.Stream(context.Background(), req) {
		if err != nil {
			log.Fatal(err)
		}
		switch d := ev.Data.(type) {
		case events.MessageDelta:
			fmt.Print(d.Delta)
		case *host.Pause:
			pauses.Go(func() { answer(d) }) // ends with the user's line; the stream is read on
		case events.Error:
			log.Fatal(d.Message)
		}
	}
	pauses.Wait()
	fmt.Println()
}

func answer(p *host.Pause) {
	var err error
	switch p.Kind {
	case host.PauseConfirmation:
		if ask("really %s %s?", p.Call.ToolName, p.Call.Arguments) == "yes" {
			err = p.Confirm()
		} else {
			err = p.Deny("")
		}
	case host.PauseInput:
		err = p.Provide(map[string]any{"address": ask("where to, for %s?", p.Call.Arguments)})
	}
	if err != nil {
		fmt.Println("too late:", err)
	}
}
