//go:build linux

package faults_test

import (
	"fmt"
	"testing"
	"time"

	"innerd/events"
	"innerd/test/ledger"
	"innerd/test/modelstub"
	"innerd/test/server"
)

// cast is the agent that a fault happens to, and all its conversations.
type cast struct {
	name string  // as the table says it
	v    *vendor // nil: simulate
	stub *modelstub.Server
	all  []*actor
}

// both has a fault happen to runs of simulate and to those of the real Claude Code.
func both(t *testing.T, do func(*testing.T, *cast)) {
	t.Helper()
	for _, c := range []*cast{{name: "simulate"}, {name: "Claude Code", v: &claudeCLI}} {
		t.Run(c.name, func(t *testing.T) {
			c.stub = modelstub.New()
			t.Cleanup(c.stub.Close)
			do(t, c)
		})
	}
}

// rig is one whose server finds the agent.
func (c *cast) rig(t testing.TB) *rig { return c.found(t, newRig(t)) }

func (c *cast) found(t testing.TB, r *rig) *rig {
	if c.v != nil {
		r.Env = append(r.Env, c.v.path(t))
	}
	return r
}

// many is how many conversations a test has: a real agent costs more.
func (c *cast) many(simulated, real int) int {
	if c.v == nil {
		return simulated
	}
	return real
}

// actor is a conversation of its own.
func (c *cast) actor(t testing.TB, r *rig) *actor {
	a := r.actor(t, c.v, c.stub)
	a.context += fmt.Sprintf("/%d", len(c.all))
	c.all = append(c.all, a)
	return a
}

// opens is a run that says a lot and then waits for its host.
func (c *cast) opens(t testing.TB, r *rig) *server.Tape {
	t.Helper()
	p := c.actor(t, r).does(t, nil, flood(600, 30), look("x"))
	server.Until[events.ToolRequest](p, 1)
	return p
}

// asked is how often the models were.
func (c *cast) asked() (n int) {
	for _, a := range c.all {
		n += a.asked()
	}
	return n
}

// again starts a server that was killed. Nothing that the old one started is
// there when it is ready; what it gives fails the test if a model was asked
// since then.
func (c *cast) again(t testing.TB, r *rig) (unasked func()) {
	t.Helper()
	r.again()
	asked := c.asked()
	return func() {
		t.Helper()
		if n := c.asked(); n != asked {
			t.Errorf("the model was asked %d times after the restart", n-asked)
		}
	}
}

// result is the row of one of both.
func (c *cast) result(t testing.TB, fault string, res ledger.Result, began time.Time) {
	t.Helper()
	result(t, fmt.Sprintf("%s (%s)", fault, c.name), res, time.Since(began))
}

func think(text string) act {
	return act{block: func(modelstub.Request) modelstub.Block { return modelstub.Thinking(text) }, sim: fmt.Sprintf(`{"reasoning":%q}`, text)}
}

// flood is so many deltas of so many bytes, as fast as it can.
func flood(deltas, bytes int) act {
	return act{
		block: func(modelstub.Request) modelstub.Block { return modelstub.Flood(deltas, bytes) },
		sim:   fmt.Sprintf(`{"flood":{"deltas":%d,"bytes":%d}}`, deltas, bytes),
	}
}

// paced is a flood at a rate, or a little less.
func paced(deltas, bytes, perSecond int) act {
	return act{
		block: func(modelstub.Request) modelstub.Block {
			return modelstub.Flood(deltas, bytes).Every(time.Second / time.Duration(perSecond))
		},
		sim: fmt.Sprintf(`{"flood":{"deltas":%d,"bytes":%d,"per_second":%d}}`, deltas, bytes, perSecond),
	}
}

// lists is a command that ends.
func lists() act {
	a := shell("echo a b c")
	a.sim = `{"tool":{"name":"shell","input":{"command":"echo a b c"},"output":"a b c"}}`
	return a
}
