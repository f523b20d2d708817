//go:build linux

package e2e_test

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"innerd/adapter/api"
	"innerd/events"
	"innerd/host"
	"innerd/test/agents"
	"innerd/test/claudescript"
	"innerd/test/modelstub"
	"innerd/test/proxy"
	outside "innerd/test/server"
)

// chat is a host with its conversation, over a connection that breaks.
type chat struct {
	t      testing.TB
	s      *server
	addr   atomic.Pointer[string] // the server's URL, for the proxy
	cut    *proxy.Proxy
	client *host.Client
	sc     *modelstub.Scenario
	tool   func(context.Context, json.RawMessage) (host.Result, error)
	said   []api.Message
}

func newChat(t testing.TB, limits ...int64) *chat {
	stub := modelstub.New()
	t.Cleanup(stub.Close)
	c := &chat{t: t, s: withClaude(t, agents.Claude(t).Path), sc: stub.Scenario()}
	c.start()
	c.cut = proxy.New(t, func() string { return *c.addr.Load() }, proxy.Cuts(limits...)...)
	var err error
	if c.client, err = host.New(c.cut.URL(), &host.Options{Key: key, MinBackoff: 5 * time.Millisecond, MaxBackoff: 100 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.client.CloseIdleConnections)
	return c
}

// ask runs a turn to its end; on is called with each event.
func (c *chat) ask(taskID, text string, on func(events.Event)) []events.Event {
	c.t.Helper()
	c.said = append(c.said, api.UserText(text))
	req := host.Request{Request: api.Request{
		ContextID: "the-conversation", Messages: c.said,
		Metadata: api.Metadata{
			Backend: "claude-code", TaskID: taskID,
			Credentials: &api.Credentials{APIKey: c.sc.Key(), BaseURL: c.sc.BaseURL()},
		},
	}, Tools: []host.ToolDef{{Name: "lookup", Description: "Looks something up.", Run: c.tool}}}
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*soon)
	defer cancel()
	var got []events.Event
	text = ""
	for e, err := range c.client.Stream(ctx, req) {
		if err != nil {
			c.t.Fatalf("%s, after %d events: %v", taskID, len(got), err)
		}
		if e.ID == 0 {
			continue // a heartbeat
		}
		got = append(got, e)
		if m, ok := e.Data.(events.Message); ok && !m.Partial {
			text = m.Content
		}
		if on != nil {
			on(e)
		}
	}
	if end, ok := got[len(got)-1].Data.(events.End); ok && end.State == events.Completed {
		c.said = append(c.said, api.Message{Role: "assistant", Content: text})
	}
	return got
}

// restart has the server killed and started again.
func (c *chat) restart() {
	c.s.Kill()
	c.start()
}

func (c *chat) start() {
	c.s.Start()
	url := c.s.URL()
	c.addr.Store(&url)
}

// same fails the test unless the host has exactly what the log has.
func (c *chat) same(taskID string, got []events.Event) {
	c.t.Helper()
	journal := c.s.journal(taskID)
	if len(journal) != len(got) {
		c.t.Errorf("%s: the host has %d events, the log %d", taskID, len(got), len(journal))
	}
	for _, e := range got {
		want, err := events.ParseLine([]byte(journal[e.ID]))
		if err != nil || !reflect.DeepEqual(e, want) {
			c.t.Errorf("%s: the host has as %d\n%+v\nthe log\n%s", taskID, e.ID, e, journal[e.ID])
		}
	}
	checkOrder(c.t, got)
}

// once fails the test unless each text stands once in what the model was asked last.
func (c *chat) once(texts ...string) {
	c.t.Helper()
	all := c.sc.Requests()
	heard := claudescript.Heard(all[len(all)-1])
	for _, text := range texts {
		if n := strings.Count(heard, text); n != 1 {
			c.t.Errorf("the model was told %q %d times; the end of it:\n%s", text, n, heard[max(0, len(heard)-3000):])
		}
	}
}

// onceOrUnsure is once for what was told when the server was killed: nobody
// but the agent knows whether it has it, so it may be told again, as such.
func (c *chat) onceOrUnsure(text string) {
	c.t.Helper()
	all := c.sc.Requests()
	heard := claudescript.Heard(all[len(all)-1])
	again := `<user note="may be known to you already">` + "\n" + text
	if n := strings.Count(strings.Replace(heard, again, "", 1), text); n > 1 || !strings.Contains(heard, text) {
		c.t.Errorf("the model was told %q otherwise than once, and once more as unsure; the end of it:\n%s", text, heard[max(0, len(heard)-3000):])
	}
}

func (c *chat) oneProcess() {
	c.t.Helper()
	if pids := c.s.Marked(); len(pids) != 1 {
		c.t.Errorf("the agent's processes are %s", outside.Describe(pids))
	}
}

// The whole of it: the real Claude Code, a tool of the host's, connections
// that break at any byte, and a server that is killed in the middle. Every
// event that any reader ever saw is there afterwards, and the conversation
// goes on.
func TestAcceptance(t *testing.T) {
	for name, inTool := range map[string]bool{"killed in a tool": true, "killed in a text": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newChat(t, 0, 60, 777, 900, 1500, 333, 1200, 2000, 640, 3000)
			c.firstTurn()
			readers := c.killedTurn(inTool)
			for _, p := range readers {
				c.s.equal(c.s.journal("the-second-task"), false, p)
			}
			c.nextTurn()
			if did, _ := c.cut.Happened(); did < 8 {
				t.Errorf("only %d connections were cut", did)
			}
		})
	}
}

// firstTurn completes, over connections that break.
func (c *chat) firstTurn() {
	c.tool = func(_ context.Context, args json.RawMessage) (host.Result, error) {
		return host.Result{Text: "result-marker-1 for " + string(args)}, nil
	}
	c.sc.Add(
		modelstub.Say(modelstub.Thinking("I think of it."), modelstub.Text("I look it up, as I was told.").Chunk(3).Every(5*time.Millisecond), modelstub.Tool("mcp__host__lookup", map[string]any{"key": "one"})),
		modelstub.Say(modelstub.Text("say-marker-1: it is there 1️⃣ \u0085.").Chunk(2).Every(5*time.Millisecond)),
	)
	got := c.ask("the-first-task", "ask-marker-1", nil)
	c.same("the-first-task", got)
	if end, _ := got[len(got)-1].Data.(events.End); end.State != events.Completed {
		c.t.Fatalf("the first turn ended with %+v", end)
	}
	c.oneProcess()
}

// killedTurn is one in which the server is killed. It gives what other
// readers saw.
func (c *chat) killedTurn(inTool bool) []*tape {
	gate := modelstub.NewGate()
	kill := make(chan struct{})
	c.tool = func(ctx context.Context, _ json.RawMessage) (host.Result, error) {
		if inTool {
			close(kill)
			<-ctx.Done() // until the call is resolved otherwise
		}
		return host.Result{Text: "result-marker-2"}, nil
	}
	last := modelstub.Say(modelstub.Text("These are words that never come to their end, since the server").Chunk(2).Every(5 * time.Millisecond).Hold(gate).Add(" dies."))
	c.sc.Add(modelstub.Say(modelstub.Text("say-marker-2.").Chunk(2).Every(5*time.Millisecond), modelstub.Tool("mcp__host__lookup", map[string]any{"key": "two"})), last)

	var readers []*tape
	var killed sync.WaitGroup
	killed.Go(func() {
		if inTool {
			<-kill
		} else {
			<-gate.Reached()
		}
		readers = append(readers, c.s.follow("who came late", "the-second-task", 3))
		readers[len(readers)-1].until(c.t, events.TypeMessageDelta)
		c.restart()
	})
	first := true
	got := c.ask("the-second-task", "ask-marker-2", func(e events.Event) {
		if first {
			readers = append(readers, c.s.follow("who read beside", "the-second-task", 0))
		}
		first = false
	})
	killed.Wait()
	gate.Release()
	c.same("the-second-task", got)
	p := c.s.follow("afterwards", "the-second-task", 0)
	p.whole(c.t)
	restarted(c.t, p)
	c.s.equal(c.s.journal("the-second-task"), true, p)
	if left := c.s.Strays(); len(left) > 0 {
		c.t.Errorf("agents of the killed server are left: %s", outside.Describe(left))
	}
	return readers
}

// nextTurn goes on in the same conversation.
func (c *chat) nextTurn() {
	asked := c.sc.Count()
	c.sc.Add(modelstub.Say(modelstub.Text("say-marker-3.")))
	got := c.ask("the-third-task", "ask-marker-3", nil)
	c.same("the-third-task", got)
	if end, _ := got[len(got)-1].Data.(events.End); end.State != events.Completed {
		c.t.Errorf("the third turn ended with %+v", end)
	}
	if n := c.sc.Count(); n != asked+1 {
		c.t.Errorf("the model was asked %d times for one turn", n-asked)
	}
	c.oneProcess()
	c.once("ask-marker-1", "say-marker-1", "result-marker-1", "ask-marker-3")
	c.onceOrUnsure("ask-marker-2")
}
