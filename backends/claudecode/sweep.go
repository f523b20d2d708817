package claudecode

import "context"

// Sweep implements backends.Sweeper. Claude ends the background work that it
// knows of; a command that has detached itself it does not know.
func (c *conversation) Sweep(ctx context.Context) {
	p := c.current()
	if p == nil {
		return
	}
	if err := p.child.SweepCommands(context.WithoutCancel(ctx)); err != nil {
		c.b.log.Warn("commands of a conversation could not be ended", "conversation", c.cfg.ID, "err", err)
	}
}
