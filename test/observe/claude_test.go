//go:build linux

package observe_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"innerd/events"
	"innerd/test/agents"
	"innerd/test/modelstub"
	"innerd/test/server"
)

// TestACommandOfClaudeKnowsItsPlace: what the real agent runs in a run that it
// lives for alone can go on in the run's trace, under the agent's start.
func TestACommandOfClaudeKnowsItsPlace(t *testing.T) {
	stub := modelstub.New()
	t.Cleanup(stub.Close)
	sc := stub.Scenario()
	sc.Add(modelstub.Say(modelstub.Tool("Bash", map[string]any{"command": `echo "at=$TRACEPARENT"`, "description": "Where am I?"})))
	sc.Add(modelstub.Say(modelstub.Text("There.")))
	c := newCollector(t)
	s := traced(t, c, func(s *server.Server) {
		s.Env = append(s.Env, "INNERD_CLAUDE_CODE_PATH="+agents.Claude(t).Path)
	})
	s.Header = map[string]string{"traceparent": place(traceID)}
	p := s.Post(t, map[string]any{
		"messages": []any{map[string]any{"role": "user", "content": "Where are you?"}},
		"metadata": map[string]any{"backend": "claude-code", "model": "claude-sonnet-4-5", "events": "all", "credentials": map[string]any{"api_key": sc.Key(), "base_url": sc.BaseURL()}},
	}).Completed()
	said := ""
	for _, d := range server.Of[events.ToolComplete](p) {
		said += d.Result
	}
	s.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, span := range c.spans {
		if span.Name == "start_agent claude-code" && strings.Contains(said, "at=00-"+traceID+"-"+hex.EncodeToString(span.SpanId)+"-01") {
			return
		}
	}
	t.Errorf("%q is the place of no start:\n%s", said, p)
}
