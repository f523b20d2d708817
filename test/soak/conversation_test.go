//go:build linux

package soak_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"innerd/events"
	"innerd/test/ledger"
)

const (
	longestTurn = time.Minute     // the server ends it then
	linger      = 2 * time.Second // so long after its end a run can be found
	turnsKept   = 8               // of a history; then the host begins anew, or what the agent knows would grow for ever
)

// conversation is one of the host's, whose turns come one after another, or
// two at once now and then, of which the second is queued.
type conversation struct {
	s    *soak
	name string
	n    int // of its last turn; each conversation begins with another

	mu      sync.Mutex
	history []object
}

// live makes turns until ctx ends, and waits for the last.
func (c *conversation) live(ctx context.Context) {
	for pause(ctx, time.Duration(rand.Int64N(int64(2*c.s.every)))) {
		var wg sync.WaitGroup
		for range 1 + rand.IntN(10)/9 {
			c.n++
			n := c.n
			wg.Go(func() { c.turn(n) }) // ends with its run
		}
		wg.Wait()
	}
}

// messages is what the host tells: what it remembers, and the prompt. anew: it
// remembers nothing, and its agent shall not either.
func (c *conversation) messages(prompt string) (all []object, anew bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case len(c.history) >= 2*turnsKept:
		c.history, anew = nil, true
	case len(c.history) > 2 && rand.IntN(10) == 0:
		c.history = c.history[:len(c.history)-2] // its user edits what was said before
	}
	return append(slices.Clone(c.history), object{"role": "user", "content": prompt}), anew
}

func (c *conversation) remember(prompt, answer string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history = append(c.history, object{"role": "user", "content": prompt}, object{"role": "assistant", "content": answer})
}

// turn makes one run, and hands it over for comparison when it has ended.
func (c *conversation) turn(n int) {
	s := c.s
	ctx, cancel := context.WithTimeout(s.ctx, longestTurn+2*time.Minute)
	defer cancel()
	steps, played := script(rand.New(rand.NewPCG(rand.Uint64(), 0)), n)
	s.count(played)
	prompt, id := fmt.Sprintf("turn %d", n), fmt.Sprintf("%s-%d", c.name, n)
	said, anew := c.messages(prompt)
	body := turn(c.name, prompt, steps, object{
		"context_reuse": !anew,
		"task_id":       id, "events": "all", "interactive": true, "detach": n%2 == 0, "timeout_s": longestTurn.Seconds(),
		"permission_mode": []string{"ask", "ask", "ask", "auto", "deny"}[n%5], "background": []string{"wait", "end"}[n%2],
		"native_tool_schemas": []object{{"name": "lookup", "parameters": object{"type": "object"}}, {"name": "fetch", "parameters": object{"type": "object"}}},
	})
	body["messages"] = said
	resp, err := s.c.open(ctx, http.MethodPost, "/message:stream", body)
	if err != nil {
		s.fail("%s: %v", id, err)
		return
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		s.fail("%s: %s: %s", id, resp.Status, text)
		return
	}
	r := s.floor.add(id)
	end, heard := c.follow(ctx, r, resp.Body, slices.Contains(played, "stall"))
	s.ended(end)
	if end.State == events.Completed {
		c.remember(prompt, heard)
	}
	log, err := ledger.Disk(filepath.Join(s.server.State, "runs", id), false)
	if err != nil {
		s.fail("%s: %v", id, err)
		return
	}
	s.open.Go(func() { // ends when the last reader has left the run
		pause(s.ctx, linger)
		r.remove()
		<-r.empty
		s.compared(r.ledger.Compare(log))
	})
}

// follow reads the stream of a run to its end and does what a host does.
func (c *conversation) follow(ctx context.Context, r *run, stream io.Reader, stalls bool) (end events.End, said string) {
	s := c.s
	ctx, over := context.WithCancel(ctx)
	h := &host{s: s, task: r.id}
	if stalls {
		h.cancelLater(ctx, time.Duration(200+rand.IntN(1500))*time.Millisecond)
	}
	switch rand.IntN(20) {
	case 0:
		h.cancelLater(ctx, time.Duration(rand.IntN(1500))*time.Millisecond)
	case 1, 2:
		h.wg.Go(func() { // ends with the call, or the run
			if pause(ctx, time.Duration(rand.IntN(500))*time.Millisecond) {
				s.answers.steered.Add(1)
				h.call(ctx, "/tasks/"+r.id+":steer", object{"text": "and look at this"})
			}
		})
	}
	ears := &listener{each: func(e events.Event) {
		switch d := e.Data.(type) {
		case events.Message:
			said += d.Content + "\n"
		case events.End:
			end = d
		default:
			h.answer(ctx, e)
		}
	}}
	if err := r.first.Whole().Read(io.TeeReader(stream, ears)); err != nil {
		s.fail("the stream of %s ended with %v", r.id, err)
	}
	over()
	h.wg.Wait()
	return end, said
}
