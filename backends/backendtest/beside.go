package backendtest

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"innerd/backends"
	"innerd/events"
)

// compact has the agent compact its memory, as the host may ask.
func (p *player) compact(name string, c *Compact) bool {
	if c == nil {
		return true
	}
	conv, ok := p.conv.(backends.Compacter)
	if !ok {
		p.t.Errorf("%s: the backend says that it can compact, but its conversation is no Compacter", name)
		return false
	}
	p.seat.Arrange([]Step{{Compact: c}})
	p.takeStrays()
	ctx, cancel := context.WithTimeout(p.t.Context(), p.shared.rig.limit(Turn{}))
	defer cancel()
	if err := conv.Compact(ctx); err != nil {
		p.t.Errorf("%s: Compact: %v", name, err)
		return false
	}
	return true
}

// steer is called once, by the recorder: it steers beside the run, and tells
// the recorder when the agent has taken it. The group ends with the steering.
func (p *player) steer(ctx context.Context, name string, turn Turn, rec *Recorder, wg *sync.WaitGroup) {
	conv, ok := p.conv.(backends.Steerer)
	if !ok {
		p.t.Errorf("%s: the backend says that it can be steered, but its conversation is no Steerer", name)
		return
	}
	wg.Go(func() { // ends with the run's context at the latest
		if err := conv.Steer(ctx, []events.Part{events.Text(turn.Host.Steer.Text)}); err != nil {
			p.t.Errorf("%s: Steer: %v", name, err)
			return
		}
		rec.Steered()
	})
}

// makes reports whether there is a file to wait for before a cancel: where the
// agent's tools are no programs there is none.
func (p *player) makes(c Cancel) bool {
	return c.Began != "" && p.shared.rig.Lacks[NeedProcess] == ""
}

// awaitFile waits until a file is there.
func (p *player) awaitFile(ctx context.Context, name, file string) {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	for {
		if _, err := os.Stat(in(p.dir, file)); err == nil {
			return
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			p.t.Errorf("%s: nothing made the file %s", name, file)
			return
		}
	}
}

// steered checks, after the run, that it was steered and takes no more.
func (p *player) steered(name string, turn Turn, rec *Recorder) {
	if turn.Host.Steer.On == "" {
		return
	}
	if !rec.Steering() {
		p.t.Errorf("%s: there was no %s to steer at", name, turn.Host.Steer.On)
		return
	}
	conv, ok := p.conv.(backends.Steerer)
	if !ok {
		return // was said
	}
	ctx, cancel := context.WithTimeout(p.t.Context(), soon)
	defer cancel()
	if err := conv.Steer(ctx, []events.Part{events.Text("too late")}); !errors.Is(err, backends.ErrTooLate) {
		p.t.Errorf("%s: Steer after the turn gives %v, want ErrTooLate", name, err)
	}
}
