// Package modelstub is a model provider for tests: an HTTP server on loopback
// that answers real agents from a script.
//
// A script is a list of turns and knows no API: text, thinking, tool calls,
// holds, cuts, failures. A dialect puts it on the wire: Anthropic's Messages,
// OpenAI's Responses and Chat Completions, by the path asked. Each scenario has
// a path prefix, a key, a script and a record of requests of its own, so that
// many tests share one server.
//
//	stub := modelstub.New()
//	defer stub.Close()
//	sc := stub.Scenario(
//		modelstub.Say(modelstub.Tool("Bash", map[string]any{"command": "date"})),
//		modelstub.Say(modelstub.Text("It is {{tool_result}}.")),
//	)
//	// run an agent with sc.BaseURL() and sc.Key(), then look at sc.Requests()
package modelstub
