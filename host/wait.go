package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"innerd/adapter/api"
)

// probeTimeout is of one look at a server that is waited for: one that hangs
// while it starts is asked again.
const probeTimeout = 5 * time.Second

// WaitHealthy waits until the server lives, for as long as ctx does. The error
// says what stood in the way last.
func (c *Client) WaitHealthy(ctx context.Context) (h api.Health, err error) {
	err = c.wait(ctx, "healthy", func(ctx context.Context) error {
		h, err = c.Health(ctx)
		if err == nil && h.Status != api.StatusOK {
			err = &Error{ErrorType: TypeBroken, Detail: "what answers there is no innerd"}
		}
		return err
	})
	return h, err
}

// WaitReady waits until the server takes runs, likewise.
func (c *Client) WaitReady(ctx context.Context) error { return c.wait(ctx, "ready", c.Ready) }

func (c *Client) wait(ctx context.Context, what string, probe func(context.Context) error) error {
	b := backoff{min: c.opt.MinBackoff, max: c.opt.MaxBackoff}
	for {
		if _, err := c.addr.get(ctx); ctx.Err() != nil { // it may take longer than a probe
			return fmt.Errorf("host: the server's address is not known yet: %w", err)
		}
		err := c.probe(ctx, probe)
		if err == nil {
			return nil
		}
		if untrusted(err) {
			return err
		}
		if over := b.wait(ctx, nil); over != nil {
			return fmt.Errorf("host: the server is not %s: %w", what, errors.Join(over, err))
		}
	}
}

func (c *Client) probe(ctx context.Context, probe func(context.Context) error) error {
	ctx, stop := context.WithTimeout(ctx, probeTimeout)
	defer stop()
	return probe(ctx)
}
