package codex

import "context"

// Sweep implements backends.Sweeper. Codex ends the background work that it
// knows of; a command that has detached itself it does not know.
func (c *conversation) Sweep(context.Context) {
	c.mu.Lock()
	s := c.srv
	c.mu.Unlock()
	if s == nil {
		return
	}
	select {
	case <-s.gone(): // and all of its commands with it
	default:
		c.sweep(s)
	}
}
