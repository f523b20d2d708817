package record_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"innerd/test/modelstub"
	"innerd/test/modelstub/claudecli"
)

const (
	first  = "00000000-0000-4000-8000-000000000001"
	second = "00000000-0000-4000-8000-000000000002"
)

// oneTurn is what most recordings do.
func oneTurn(s *session) {
	s.start()
	s.cli.Say(first, "Do it, please.")
	s.cli.Await("result")
	s.idle()
}

// parallel answers no call before all three have come.
func parallel(s *session) {
	var all sync.WaitGroup
	all.Add(3)
	s.host.Call = func(name string, args json.RawMessage) any {
		all.Done()
		all.Wait()
		return callTool(name, args)
	}
	oneTurn(s)
}

func interruptText(s *session) {
	g := modelstub.NewGate()
	s.sc.Add(say(modelstub.Text("I could go on and on").Hold(g)), say(modelstub.Text("As you like.")))
	s.start()
	s.cli.Say(first, "Tell me a long story.")
	s.delta("and on")
	s.interruptAndGoOn()
}

func interruptTool(s *session) {
	fifo := filepath.Join(s.dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.sc.Add(say(modelstub.Text("Wait."), bash("echo started > fifo; exec sleep 300")), say(modelstub.Text("As you like.")))
	s.start()
	s.cli.Say(first, "Run it.")
	s.cli.Await("control_request/can_use_tool")
	if _, err := os.ReadFile(fifo); err != nil { // blocks until the command runs
		s.t.Fatal(err)
	}
	s.interruptAndGoOn()
}

func interruptBridged(s *session) {
	called, end := make(chan struct{}), make(chan struct{})
	s.host = claudecli.Host{Tools: hostTools, Call: func(name string, args json.RawMessage) any {
		close(called)
		<-end
		return callTool(name, args)
	}}
	s.sc.Add(say(bridged("get_weather", map[string]any{"city": "Berlin"})), say(modelstub.Text("As you like.")))
	s.start()
	s.cli.Say(first, "Ask.")
	<-called
	s.cli.Interrupt()
	s.cli.Await("result")
	close(end) // the answer comes late
	s.idle()
	s.cli.Say(second, "Go on.")
	s.cli.Await("result")
	s.idle()
}

// cutMidStream has the connection reset when the CLI has passed on what came before.
func cutMidStream(s *session) {
	g := modelstub.NewGate()
	s.cut(g, say(modelstub.Text("This text is cut").Hold(g).Cut(modelstub.CutReset)), say(modelstub.Text("This text is whole.")))
}

// cutAfterThinking is cut when a block is whole already: the CLI keeps that one.
func cutAfterThinking(s *session) {
	g := modelstub.NewGate()
	s.cut(g, say(modelstub.Thinking("First I think."), modelstub.Text("This text is cut").Hold(g).Cut(modelstub.CutReset)),
		say(modelstub.Thinking("I think again."), modelstub.Text("This text is whole.")))
}

func (s *session) cut(g *modelstub.Gate, turns ...modelstub.Turn) {
	s.sc.Add(turns...)
	s.start()
	s.cli.Say(first, "Say it.")
	s.delta("is cut")
	g.Release()
	s.cli.Await("result")
	s.idle()
}

// cutForever has every stream dropped, so that the CLI asks without streaming.
func cutForever(s *session) {
	s.sc.Add(say(modelstub.Text("This text is").Cut(modelstub.CutDrop)).Instead(modelstub.Text("This text came whole.")).Forever())
	oneTurn(s)
}

func twoTurns(s *session) {
	s.start()
	s.cli.Say(first, "One.")
	s.cli.Await("result")
	s.idle()
	s.cli.Say(second, "Two.")
	s.cli.Await("result")
	s.idle()
}

// messageInTool steers: a second message comes while a tool of the host runs.
func messageInTool(s *session) {
	called, end := make(chan struct{}), make(chan struct{})
	s.host = claudecli.Host{Tools: hostTools, Call: func(name string, args json.RawMessage) any {
		close(called)
		<-end
		return callTool(name, args)
	}}
	s.sc.Add(say(bridged("get_weather", map[string]any{"city": "Berlin"})), say(modelstub.Text("Both are answered.")))
	s.start()
	s.cli.Say(first, "Ask.")
	<-called
	s.cli.Say(second, "And be quick.")
	s.cli.Await("command_lifecycle") // first, started
	close(end)
	s.cli.Await("result")
	s.idle()
}

// twoResults is a turn after which the CLI begins another one by itself.
func twoResults(s *session) {
	s.start()
	s.cli.Say(first, "Do it, please.")
	s.cli.Await("result")
	s.cli.Await("result")
	s.idle()
}

// compactRequest has the conversation summed up between two turns.
func compactRequest(s *session) {
	s.start()
	s.cli.Say(first, "One.")
	s.cli.Await("result")
	s.idle()
	s.cli.Send(map[string]any{
		"type": "user", "message": map[string]any{"role": "user", "content": "/compact"}, "uuid": "00000000-0000-4000-8000-000000000003", "parent_tool_use_id": nil,
	})
	s.cli.Await("result")
	s.idle()
	s.cli.Say(second, "Two.")
	s.cli.Await("result")
	s.idle()
}

// steerInText sends a second message while the model talks.
func steerInText(s *session) {
	g := modelstub.NewGate()
	s.sc.Add(say(modelstub.Text("I talk and talk").Hold(g)), say(modelstub.Text("I heard you.")))
	s.start()
	s.cli.Say(first, "Talk.")
	s.delta("and talk")
	s.cli.Say(second, "And be quick.")
	g.Release()
	s.cli.Await("result")
	s.cli.Await("result")
	s.idle()
}

func resumeMissing(s *session) {
	s.start()
	s.cli.Await("result")
}

func imageInput(s *session) {
	s.start()
	s.cli.Say(first, []any{
		map[string]any{"type": "text", "text": "What is this?"},
		map[string]any{"type": "image", "source": map[string]any{"type": "base64", "media_type": "image/png", "data": pixel}},
	})
	s.cli.Await("result")
	s.idle()
}
