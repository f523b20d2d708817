package runs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"innerd/backends"
	"innerd/events"
	"innerd/toolbridge"
)

// agent gives the run's conversation an agent that has the session, warm where
// possible. The session is zero for a new one.
func (m *Manager) agent(l *live, session backends.Session) (backends.Conversation, error) {
	c, want := l.conv, l.spec.opening().key()
	m.mu.Lock()
	agent, opened := c.agent, c.opened
	m.mu.Unlock()
	if agent != nil && !session.Zero() && opened == want && alive(agent) {
		return agent, nil
	}
	l.rec.record(events.Status{State: events.StateStarting})
	m.dropAgent(c) // waits for one that is closing, too: it holds the session
	agent, begun, err := m.open(l.ctx, c, l.spec.opening(), session, l.span)
	if err != nil {
		return nil, err
	}
	l.starting.Store(begun)
	m.mu.Lock()
	defer m.mu.Unlock()
	c.agent, c.opened = agent, want
	return agent, nil
}

// alive reports whether a conversation's agent takes a further run.
func alive(a backends.Conversation) bool {
	select {
	case <-a.Done():
		return false
	default:
		return true
	}
}

// lives reports whether there is an agent, which waits for the next run. One
// that never came up, or has ended, may be nobody's to tell of.
func lives(a backends.Conversation) bool {
	if a == nil || !alive(a) {
		return false
	}
	l, ok := a.(backends.Lively)
	return !ok || l.Lives()
}

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// recovered turns a panic into an error of the run it happened in.
func recovered(log *slog.Logger, where string, err *error) {
	if p := recover(); p != nil {
		log.Error("panic", "in", where, "panic", p, "stack", string(debug.Stack()))
		*err = fmt.Errorf("innerd failed: %v", p)
	}
}

// dropAgent takes the conversation's agent away and waits until it is gone,
// bounded by closeAgent. The owner of the conversation's turn may call it.
func (m *Manager) dropAgent(c *conversation) {
	m.mu.Lock()
	m.coolLocked(c)
	gone := c.gone
	m.mu.Unlock()
	if gone != nil {
		<-gone
	}
}

// closeAgent returns when the agent is gone, or does not go.
func (m *Manager) closeAgent(c *conversation, agent backends.Conversation) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(m.ctx), m.lim.Grace+giveUpAfter)
	defer cancel()
	closed := make(chan error, 1)
	go func() { // ends with the agent; one that hangs holds nobody up
		var err error
		defer func() { closed <- err }()
		defer recovered(m.log, "close", &err)
		err = agent.Close(ctx)
	}()
	hung := time.NewTimer(m.lim.Grace + 2*giveUpAfter)
	defer hung.Stop()
	select {
	case err := <-closed:
		if err != nil {
			m.log.Warn("close an agent", c.logAttr(), "error", err)
		}
	case <-hung.C:
		m.log.Error("an agent does not close; it is left alone", c.logAttr())
	}
}

// restLocked is what becomes of a conversation whose last run is over: a run's
// own ends, another waits warm for the next run, if its agent does.
func (m *Manager) restLocked(c *conversation) {
	if c.contextID == "" {
		m.removeLocked(c)
		return
	}
	if !lives(c.agent) {
		m.coolLocked(c)
		return
	}
	since := time.Now()
	m.warm[c] = since
	c.endIdleLocked()                                                // or each turn would leave a timer behind for as long as that takes
	c.idle = time.AfterFunc(m.lim.Idle, func() { m.cool(c, since) }) // finds nothing to do where the conversation went on
	m.trimLocked(m.lim.Warm)
}

// removeLocked forgets a conversation; its agent is closed on the side.
func (m *Manager) removeLocked(c *conversation) {
	delete(m.conversations, c.id)
	if c.contextID != "" && m.byKey[c.key()] == c {
		delete(m.byKey, c.key())
	}
	m.bridge.Unregister(c.id)
	m.coolLocked(c)
	m.forgetFilesLocked(c)
}

// cool closes the agent of a conversation that was idle since then.
func (m *Manager) cool(c *conversation, since time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at, idle := m.warm[c]; idle && at.Equal(since) {
		m.coolLocked(c)
	}
}

// coolLocked takes the conversation's agent away, which is closed on the side,
// after the one before it.
func (m *Manager) coolLocked(c *conversation) {
	agent := c.agent
	c.agent, c.opened = nil, ""
	delete(m.warm, c)
	c.endIdleLocked()
	if !c.busyLocked() {
		c.putAway()
	}
	if agent == nil {
		return
	}
	before, gone := c.gone, make(chan struct{})
	c.gone = gone
	m.wg.Add(1)
	go func() { // ends when the agents are gone, bounded by closeAgent
		defer m.wg.Done()
		defer close(gone)
		if before != nil {
			<-before
		}
		m.closeAgent(c, agent)
	}()
}

// trimLocked closes the agents that were idle longest, down to a number. What
// has died while it was idle is put away first: nobody has to go for it.
func (m *Manager) trimLocked(to int) {
	for c := range m.warm {
		if !lives(c.agent) {
			m.coolLocked(c)
		}
	}
	for m.agentsLocked() > to {
		var oldest *conversation
		for c, since := range m.warm {
			if oldest == nil || since.Before(m.warm[oldest]) {
				oldest = c
			}
		}
		if oldest == nil {
			return // all are at work; none may be taken away
		}
		m.coolLocked(oldest)
	}
}

func (m *Manager) agentsLocked() int {
	n := 0
	for _, c := range m.conversations {
		if c.agent != nil {
			n++
		}
	}
	return n
}

// makeRoom closes idle agents where one more would be above the limit. Call it
// when that one is about to start: one that may not is no reason to.
func (m *Manager) makeRoom() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.trimLocked(m.lim.Warm - 1)
}

// closeAgents closes every agent that is left, at shutdown.
func (m *Manager) closeAgents() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.conversations {
		m.coolLocked(c)
	}
}

// Conversations lists the owner's conversations that have a context.
func (m *Manager) Conversations(owner string) []ConversationInfo {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := []ConversationInfo{}
	for _, c := range m.byKey {
		if c.owner == owner {
			out = append(out, c.infoLocked())
		}
	}
	sortConversations(out)
	return out
}

// CloseConversation ends the agent of a conversation. What it knows stays on
// disk: the next run resumes it. ErrNotFound, ErrRunning.
func (m *Manager) CloseConversation(ctx context.Context, owner, id string) (ConversationInfo, error) {
	m.mu.Lock()
	c := m.conversations[id]
	if c == nil || c.owner != owner {
		m.mu.Unlock()
		return ConversationInfo{}, ErrNotFound
	}
	if c.busyLocked() {
		err := c.busyErrLocked()
		m.mu.Unlock()
		return ConversationInfo{}, err
	}
	m.coolLocked(c)
	info, gone := c.infoLocked(), c.gone
	m.mu.Unlock()
	if gone == nil {
		return info, nil
	}
	select {
	case <-gone:
		return info, nil
	case <-ctx.Done():
		return info, context.Cause(ctx)
	}
}

// secondRoad is the MCP endpoint of a conversation.
func (m *Manager) secondRoad(c *conversation) *backends.MCPEndpoint {
	if m.opt.MCPURL == "" {
		return nil
	}
	m.mu.Lock()
	token := c.token
	m.mu.Unlock()
	if token == "" {
		token = m.bridge.Register(c.id, func() *toolbridge.Session { return m.current(c) }, func() []toolbridge.ToolSpec { return m.offered(c) })
		m.mu.Lock()
		c.token = token
		m.mu.Unlock()
	}
	return &backends.MCPEndpoint{URL: m.opt.MCPURL + toolbridge.MCPPath(c.id), Token: token}
}

// current is the bridge's session of the conversation's run, nil without one.
func (m *Manager) current(c *conversation) *toolbridge.Session {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(c.queue) == 0 {
		return nil
	}
	return c.queue[0].sess
}

func (m *Manager) offered(c *conversation) []toolbridge.ToolSpec {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(c.queue) == 0 {
		return nil
	}
	return m.session(c.queue[0]).Tools
}
