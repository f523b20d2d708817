package adapter

import "time"

// Age makes idle connections idle for longer.
func (p *Places) Age(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		if at := c.idle.Load(); at > 0 {
			c.idle.Store(at - int64(d))
		}
	}
}
