package claudecode

import (
	"context"
	"errors"
	"strings"

	"innerd/backends"
	"innerd/events"
)

// running is the run that a conversation is in, for those who want to add to it.
type running struct {
	begun chan struct{} // closed when t and p are set, and t's input is sent
	ended chan struct{} // closed when the run is over
	p     *process
	t     *turn
}

// enter makes the run known to Steer; the caller calls leave.
func (c *conversation) enter() *running {
	r := &running{begun: make(chan struct{}), ended: make(chan struct{})}
	c.mu.Lock()
	c.run = r
	c.mu.Unlock()
	return r
}

func (c *conversation) leave(r *running) {
	c.mu.Lock()
	c.run = nil
	c.mu.Unlock()
	close(r.ended)
}

func (r *running) begin(p *process, t *turn) {
	r.p, r.t = p, t
	close(r.begun)
}

// Steer implements backends.Steerer. What comes while the model speaks is
// answered after that; what comes while a tool runs goes to the model together
// with the tool's result.
func (c *conversation) Steer(ctx context.Context, parts []events.Part) error {
	c.mu.Lock()
	r := c.run
	c.mu.Unlock()
	if r == nil {
		return backends.ErrTooLate
	}
	select {
	case <-r.begun:
	case <-r.ended:
		return backends.ErrTooLate
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	content, err := c.content(&backends.Input{Parts: parts})
	if err != nil {
		return err
	}
	uuid := newUUID()
	c.sent(uuid)
	in, err := r.t.add(r.p, uuid, parts, content)
	if err != nil {
		return err
	}
	select {
	case <-in.taken:
		if in.lost {
			return backends.ErrTooLate
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// add sends one more input. It is counted and sent under the lock that the end
// is decided under: what is sent is answered, what is too late is not sent.
func (t *turn) add(p *process, uuid string, parts []events.Part, content []inBlock) (*input, error) {
	in := &input{steered: true, text: textOfParts(parts), taken: make(chan struct{})}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.stopping || t.ctx.Err() != nil {
		return nil, backends.ErrTooLate
	}
	switch err := p.say(uuid, content); {
	case errors.Is(err, errEnded): // and with it the turn
		return nil, backends.ErrTooLate
	case err != nil:
		return nil, &backends.Error{Type: events.ErrInvalidRequest, Message: err.Error()}
	}
	t.inputs[uuid] = in
	return in, nil
}

// shut lets nothing more in: claude is about to be interrupted.
func (t *turn) shut() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopping, t.halted = true, true
}

func textOfParts(parts []events.Part) string {
	var texts []string
	for _, p := range parts {
		if p.Type == events.PartText {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}
