package codex

import (
	"encoding/json"
	"slices"
	"strings"

	"innerd/backends/internal/rpc"
)

// route is where a thread's messages go. A sub-agent's thread goes to the
// conversation of its parent.
type route struct {
	c     *conversation
	agent string // the sub-agent's thread; "" for the conversation's own
}

// quiet are notifications that say nothing to us.
var quiet = []string{"thread/readState/changed", "thread/status/changed", "remoteControl/status/changed"}

// attach gives the messages of a thread to a conversation.
func (s *server) attach(thread string, r *route) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.threads[thread] = r
}

// detach ends that, for the conversation's sub-agents too.
func (s *server) detach(c *conversation) (threads []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, r := range s.threads {
		if r.c == c {
			delete(s.threads, id)
			threads = append(threads, id)
		}
	}
	return threads
}

func (s *server) routeOf(thread string) *route {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.threads[thread]
}

// hears is routeOf for what has just come.
func (s *server) hears(thread string) *route {
	r := s.routeOf(thread)
	if r != nil {
		s.heard.Add(1)
		r.c.heard.Add(1)
	}
	return r
}

// heardBeside counts what came for other conversations than c.
func (s *server) heardBeside(c *conversation) int64 { return s.heard.Load() - c.heard.Load() }

// notification is called by the goroutine that reads.
func (s *server) notification(method string, params json.RawMessage) {
	if slices.Contains(ignored, method) {
		return
	}
	var n notification
	if err := decode(params, &n); err != nil {
		s.note("params of " + method)
		return
	}
	if method == "thread/started" {
		s.childStarted(&n)
		return
	}
	if n.RateLimits != nil {
		s.mu.Lock()
		s.limits = n.RateLimits
		s.mu.Unlock()
	}
	r := s.hears(n.ThreadID)
	switch {
	case r != nil:
		if !r.c.notification(r, method, &n) {
			s.mu.Lock()
			s.late++
			s.mu.Unlock()
		}
	case n.ThreadID == "" && slices.Contains(general, method):
		s.everybody(method, &n)
	default:
		s.note(method)
	}
}

// ignored say nothing that a run must know.
var ignored = []string{
	"configWarning", "deprecationNotice", "thread/goal/cleared", "thread/settings/updated", "thread/name/updated",
	"serverRequest/resolved", "turn/diff/updated", "item/reasoning/summaryPartAdded", "thread/closed", "thread/archived",
	"item/fileChange/outputDelta", "mcpServer/startupStatus/updated",
	"account/updated", "skills/changed", "thread/queue/changed", "thread/environment/connected",
}

// general are of no thread.
var general = []string{"account/rateLimits/updated", "warning"}

// childStarted routes a sub-agent's thread before anything else comes of it.
func (s *server) childStarted(n *notification) {
	s.mu.Lock()
	defer s.mu.Unlock()
	parent := s.threads[n.Thread.Parent]
	if parent == nil || s.threads[n.Thread.ID] != nil {
		return
	}
	s.threads[n.Thread.ID] = &route{c: parent.c, agent: n.Thread.ID}
}

// everybody gives what is of no thread to all conversations.
func (s *server) everybody(method string, n *notification) {
	s.mu.Lock()
	var all []*route
	for _, r := range s.threads {
		if r.agent == "" {
			all = append(all, r)
		}
	}
	s.mu.Unlock()
	for _, r := range all {
		r.c.notification(r, method, n)
	}
}

// request is called by the goroutine that reads. False: codex is told that
// there is no such thing, since it waits for an answer for ever.
func (s *server) request(r *rpc.Request) bool {
	var q request
	if err := decode(r.Params, &q); err != nil {
		s.note("params of " + r.Method)
		return false
	}
	to := s.hears(q.ThreadID)
	if to == nil {
		s.note(r.Method)
		return false
	}
	return to.c.request(to, r, &q)
}

// note counts what nobody knows or wants; another release of codex may have more.
func (s *server) note(what string) {
	if s.b.unknown.Add(what) {
		s.log.Info("codex said what nobody here knows or waits for", "what", what)
	}
}

// oddLine reports a line that is no message. Codex prints none; whoever shares
// its stdout may.
func (s *server) oddLine(what string) {
	s.mu.Lock()
	s.odd++
	n := s.odd
	s.mu.Unlock()
	if !worthSaying(n) {
		return
	}
	s.log.Warn("codex printed something that is no message", "bytes", len(what), "count", n)
	s.everybody("innerd/notice", &notification{Message: excerpt(what)})
}

// worthSaying thins out what an agent can say without end: after the first
// ones, each time the count has doubled.
func worthSaying(count int) bool { return count <= maxNotices || count&(count-1) == 0 }

func excerpt(s string) string {
	const limit = 300
	if len(s) > limit {
		return strings.ToValidUTF8(s[:limit], "") + "…"
	}
	return s
}
