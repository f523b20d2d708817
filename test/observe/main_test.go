//go:build linux

package observe_test

import (
	"os"
	"testing"

	"innerd/test/hostile"
	"innerd/test/server"
)

// innerd is the innerd under test, as it is released.
var innerd string

func TestMain(m *testing.M) {
	hostile.Main() // an agent, where this is started as one
	os.Exit(server.Main(m, &innerd))
}

// simulated is the body of a run of the simulated agent.
func simulated(contextID, script string, metadata map[string]any) map[string]any {
	meta := map[string]any{"backend": "simulate", "agent_options": map[string]any{"script": jsonOf(script)}}
	for k, v := range metadata {
		meta[k] = v
	}
	return map[string]any{"context_id": contextID, "messages": []any{map[string]any{"role": "user", "content": "what the user says"}}, "metadata": meta}
}
