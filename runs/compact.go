package runs

import (
	"context"
	"fmt"
	"os"
	"time"

	"innerd/backends"
	"innerd/events"
)

// compaction is a conversation's, while it is on. Its fields do not change.
type compaction struct {
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when the conversation is free again
	err    error         // written before done is closed
}

// CompactConversation has the agent of a conversation shorten its memory, and
// starts it for that where it is cold. Runs that come meanwhile are queued. It
// goes on when ctx ends.
//
// Errors: ErrNotFound, ErrUnsupported, ErrRunning, ErrConflict where the agent
// knows nothing yet, ErrDraining, a *backends.Error of the agent.
func (m *Manager) CompactConversation(ctx context.Context, owner, id string) (ConversationInfo, error) {
	c, err := m.conversationOf(owner, id)
	if err != nil {
		return ConversationInfo{}, err
	}
	if !m.can(ctx, c.backend).Compact {
		return ConversationInfo{}, fmt.Errorf("%w: this agent shortens its memory by itself alone", ErrUnsupported)
	}
	work, err := m.beginCompaction(c)
	if err != nil {
		return ConversationInfo{}, err
	}
	select {
	case <-work.done:
		err = work.err
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return c.infoLocked(), err
}

// conversationOf finds a conversation of the owner that hosts can come back to.
func (m *Manager) conversationOf(owner, id string) (*conversation, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.conversations[id]
	if c == nil || c.owner != owner {
		return nil, ErrNotFound
	}
	return c, nil
}

func (m *Manager) beginCompaction(c *conversation) (*compaction, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.draining:
		return nil, ErrDraining
	case c.busyLocked():
		return nil, c.busyErrLocked()
	case !c.began.Load():
		return nil, fmt.Errorf("%w: the agent of this conversation knows nothing yet", ErrConflict)
	}
	ctx, cancel := context.WithCancelCause(m.ctx)
	work := &compaction{cancel: cancel, done: make(chan struct{})}
	c.compacting = work
	delete(m.warm, c)
	m.wg.Add(1)
	go func() { // ends with the agent's answer, its time, a cancel or a shutdown
		defer m.wg.Done()
		defer cancel(nil)
		work.err = m.compact(ctx, c)
		m.endCompaction(c, work)
	}()
	return work, nil
}

func (m *Manager) endCompaction(c *conversation, work *compaction) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c.compacting, c.lastUsed = nil, time.Now()
	if len(c.queue) > 0 {
		close(c.queue[0].turn)
	} else if c.reserved == 0 {
		m.restLocked(c)
	}
	close(work.done)
}

// compact is bounded as a turn is. An agent that does not return when it is
// told to stop is given up.
func (m *Manager) compact(ctx context.Context, c *conversation) error {
	ctx, cancel := context.WithTimeoutCause(ctx, of(m.lim.Turn, c.backend.Name()), &backends.Error{
		Type: events.ErrTimeout, Message: "the agent did not shorten its memory in time",
	})
	defer cancel()
	agent, begun, err := m.warmed(ctx, c)
	if err != nil {
		return err
	}
	shorten, ok := agent.(backends.Compacter)
	if !ok {
		err = fmt.Errorf("%w: this agent shortens its memory by itself alone", ErrUnsupported)
	} else {
		err = m.bounded(ctx, c, func() error { return shorten.Compact(ctx) })
	}
	if begun != nil {
		begun.over(err, false)
	}
	if err != nil && context.Cause(ctx) != nil && !isBackendError(err) {
		err = context.Cause(ctx)
	}
	return err
}

// warmed gives the conversation's agent, opening it as its last run did where
// it is cold. What a request brought itself, a key or an environment, is not
// kept: such an agent is reached with the server's own.
func (m *Manager) warmed(ctx context.Context, c *conversation) (backends.Conversation, *start, error) {
	m.mu.Lock()
	agent := c.agent
	m.mu.Unlock()
	if agent != nil && alive(agent) {
		return agent, nil, nil
	}
	st := c.stored(m.store)
	if info, err := os.Stat(st.Dir); err != nil || !info.IsDir() {
		return nil, nil, fmt.Errorf("%w: the conversation's directory %s is gone", ErrConflict, st.Dir)
	}
	m.dropAgent(c)
	o := opening{dir: st.Dir}
	agent, begun, err := m.open(ctx, c, o, st.Session, nil)
	if err != nil {
		return nil, nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c.agent, c.opened = agent, o.key()
	return agent, begun, nil
}

// bounded calls the agent. It returns some time after ctx has ended at the
// latest; the agent is given up then.
func (m *Manager) bounded(ctx context.Context, c *conversation, call func() error) error {
	res := make(chan error, 1)
	m.wg.Add(1)
	go func() { // ends when the agent returns; Shutdown waits for it
		defer m.wg.Done()
		var err error
		defer func() { res <- err }()
		defer recovered(m.log.With(c.logAttr()), "backend", &err)
		err = call()
	}()
	select {
	case err := <-res:
		return err
	case <-ctx.Done():
	}
	timer := time.NewTimer(m.lim.Grace + giveUpAfter)
	defer timer.Stop()
	select {
	case err := <-res:
		return err
	case <-timer.C:
		m.log.Error("an agent did not stop and is given up", c.logAttr())
		m.dropAgent(c)
		return context.Cause(ctx)
	}
}
