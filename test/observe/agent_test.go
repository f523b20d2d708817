//go:build linux

package observe_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"testing"

	"innerd/events"
	"innerd/test/hostile"
	"innerd/test/server"
)

// places gives the TRACEPARENTs in the environments of the agents that run.
func places(s *server.Server) (out []string) {
	for _, pid := range s.Marked() {
		environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)) // gone
		for v := range bytes.SplitSeq(environ, []byte{0}) {
			if at, ok := bytes.CutPrefix(v, []byte("TRACEPARENT=")); ok {
				out = append(out, string(at))
			}
		}
	}
	return out
}

// TestAnAgentOfOneRunKnowsItsPlace: an agent that lives for its run alone has
// the place of its start in the run's trace. One that others use too, or that
// is kept for later runs, would put those into the first one's trace.
func TestAnAgentOfOneRunKnowsItsPlace(t *testing.T) {
	c := newCollector(t)
	s := traced(t, c, func(s *server.Server) {
		s.Env = append(append(s.Env, hostile.Install(t)...), "ANTHROPIC_API_KEY=dummy", "OPENAI_API_KEY=dummy", "GITHUB_TOKEN=dummy")
	})
	var told string
	for i, of := range []struct {
		backend, context string
		alone            bool
	}{{"claude-code", "", true}, {"claude-code", "kept", false}, {"codex", "", false}, {"copilot", "", false}} {
		s.Header = map[string]string{"traceparent": place(traceID)}
		before := places(s)
		p := s.Post(t, map[string]any{
			"context_id": of.context, "messages": []any{map[string]any{"role": "user", "content": fmt.Sprintf("<<call lookup c%d x>>", i)}},
			"metadata": map[string]any{"backend": of.backend, "native_tool_schemas": bridged["native_tool_schemas"]},
		})
		call := server.Until[events.ToolRequest](p, 1)
		now := slices.DeleteFunc(places(s), func(at string) bool { return slices.Contains(before, at) })
		if (len(now) == 1) != of.alone {
			t.Errorf("%s in %q was told %q", of.backend, of.context, now)
		}
		if of.alone && len(now) == 1 {
			told = now[0]
		}
		s.Result(call.ToolCallID, map[string]any{"result": "x"})
		p.Completed()
	}
	for _, backend := range []string{"claude-code", "codex", "copilot"} {
		all := scrape(t, s)
		if value(all, "innerd_agent_start_duration_seconds", "backend", backend) < 1 || value(all, "innerd_agent_starts_total", "backend", backend, "result", "ok") < 1 {
			t.Errorf("no start of %s is counted", backend)
		}
	}
	s.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, span := range c.spans {
		if span.Name == "start_agent claude-code" && told == "00-"+traceID+"-"+hex.EncodeToString(span.SpanId)+"-01" {
			return
		}
	}
	t.Errorf("%q is the place of no start", told)
}
