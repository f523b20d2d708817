package copilot

import "context"

// Sweep implements backends.Sweeper. Copilot ends the background work that it
// knows of; a command that has detached itself it does not know.
func (c *conversation) Sweep(ctx context.Context) {
	c.mu.Lock()
	p := c.p
	c.mu.Unlock()
	if p == nil || p.peer.Err() != nil { // its end takes all with it
		return
	}
	c.sweep(context.WithoutCancel(ctx), p)
}
