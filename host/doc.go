// Package host is the host's side of innerd: what an agent loop needs to have
// its inner loop done by a coding agent in a sandbox, with its own tools, and to
// go on by itself when that agent cannot.
//
// A [Client] is the server's calls. Its [Client.Stream] runs one turn and gives
// its events, each once and in order, whatever happens to the connection:
//
//	c, err := host.New("http://sandbox:18100", &host.Options{Key: key})
//	req := host.Prompt("conversation-1", "How warm is it in Oslo?")
//	req.Tools = []host.ToolDef{host.Tool("weather", "The weather of now", weather)}
//	for ev, err := range c.Stream(ctx, req) {
//		…
//	}
//
// A [ToolDef] is a function of the host that the agent may call; [Tool] makes it
// of a Go function, with the JSON Schema of its arguments. A tool may ask for
// somebody's consent or input first, which the stream shows as a [Pause].
//
// An [InnerLoop] is a [Strategy] made of two others, an agent on a server
// ([Delegated]) and the host's own loop ([Native]): a breaker decides who
// answers, and a [Fallback] in the stream says that it was the host's own, why,
// and from where. [Turn] is a chat's message without tools; a [Council] asks
// several at once. [Outcome] gathers what a stream says, and package
// [innerd/host/billing] says what it costs.
//
// The package holds no state of a run but what the server's log can give again,
// so a host may die and attach to its run by the same task id. It links nothing
// of the server, and builds wherever Go does. docs/hosts.md says how to build a
// host with it, and without Go.
package host
