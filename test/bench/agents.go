package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"innerd/adapter/api"
	"innerd/test/agents"
	"innerd/test/modelstub"
)

// agent finds an agent's program and gives it a model that always says the same.
func (m measured) agent() (agents.Pinned, *modelstub.Server, error) {
	pin, err := agents.Find(m.word)
	if err != nil {
		return pin, nil, err
	}
	return pin, modelstub.New(), nil
}

func model(stub *modelstub.Server) *modelstub.Scenario {
	return stub.Scenario(modelstub.Say(modelstub.Text(says)).Forever())
}

// warm measures what innerd adds to the first delta of a warm turn: the same
// turn through innerd and over the pipes of a process of our own, in turn.
func warm(m measured) func(*bench, context.Context) error {
	return func(b *bench, ctx context.Context) error {
		pin, stub, err := m.agent()
		if err != nil {
			return err
		}
		defer stub.Close()
		dir, err := b.folder()
		if err != nil {
			return err
		}
		one, err := m.direct(ctx, dir, pin, model(stub))
		if err != nil {
			return err
		}
		defer one.stop()
		in, err := b.innerd(ctx, m.env(pin, model(stub))...)
		if err != nil {
			return err
		}
		defer in.stop()
		var said []any
		ours := func(int) (time.Duration, error) {
			said = append(said, object{"role": "user", "content": hears})
			took, err := in.agentTurn(ctx, m.word, "bench", said)
			said = append(said, object{"role": "assistant", "content": says})
			return took, err
		}
		theirs := func(i int) (time.Duration, error) {
			began := time.Now()
			at, err := one.turn(ctx, i)
			return at.Sub(began), err
		}
		return b.compare(m, pin, "warm turn", 5, 60, 2*time.Millisecond, ours, theirs)
	}
}

// cold measures the same of the first turn, for which the agent's process
// starts: at an innerd that knows already that it can run.
func cold(m measured) func(*bench, context.Context) error {
	return func(b *bench, ctx context.Context) error {
		pin, stub, err := m.agent()
		if err != nil {
			return err
		}
		defer stub.Close()
		ours := func(int) (time.Duration, error) {
			in, err := b.innerd(ctx, m.env(pin, model(stub))...)
			if err != nil {
				return 0, err
			}
			defer in.stop()
			if err := in.probed(ctx); err != nil {
				return 0, err
			}
			return in.agentTurn(ctx, m.word, "bench", []any{object{"role": "user", "content": hears}}, m.tools...)
		}
		theirs := func(i int) (time.Duration, error) {
			dir, err := b.folder()
			if err != nil {
				return 0, err
			}
			defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
			began := time.Now()
			one, err := m.direct(ctx, dir, pin, model(stub))
			if err != nil {
				return 0, err
			}
			defer one.stop()
			at, err := one.turn(ctx, i)
			return at.Sub(began), err
		}
		return b.compare(m, pin, "cold first turn"+m.with, 1, 50, 20*time.Millisecond, ours, theirs)
	}
}

// settle is the pause before each turn: what the one before it still does, its agent
// too, is not to be measured with the next.
const settle = 30 * time.Millisecond

// compare measures pairs, in turn the one and the other first, after some that
// warm up.
func (b *bench) compare(m measured, pin agents.Pinned, what string, before, pairs int, goal time.Duration, ours, theirs func(int) (time.Duration, error)) error {
	if b.quick {
		pairs = 10
	}
	var took [2][]time.Duration
	for i := range before + pairs {
		for k := range 2 {
			which := (i + k) % 2
			time.Sleep(settle)
			d, err := []func(int) (time.Duration, error){ours, theirs}[which](i)
			if err != nil {
				return err
			}
			if i >= before {
				took[which] = append(took[which], d)
			}
		}
	}
	a, d := took[0], took[1]
	fmt.Fprintf(os.Stderr, "  innerd p10 %s, median %s, p90 %s; direct %s, %s, %s\n",
		ms(quantile(a, .1)), ms(median(a)), ms(quantile(a, .9)), ms(quantile(d, .1)), ms(median(d)), ms(quantile(d, .9)))
	added := median(a) - median(d)
	b.table.add(row{
		what:     fmt.Sprintf("%s %s, %s to first delta, added by innerd, %d pairs", m.name, pin.Version, what, pairs),
		measured: ms(added), limit: ms(median(d)) + " direct", goal: fmt.Sprintf("≤ %d ms", goal.Milliseconds()), ok: added <= goal,
	})
	return nil
}

// agentTurn runs a turn and gives the time to its first delta. It brings the
// whole conversation, as hosts do.
func (p *process) agentTurn(ctx context.Context, backend, contextID string, messages []any, tools ...any) (time.Duration, error) {
	return firstOf(ctx, http.DefaultClient, p.url+"/message:stream", object{
		"context_id": contextID, "messages": messages, "metadata": object{"backend": backend, "native_tool_schemas": tools},
	})
}

// probed has innerd look which agents can run.
func (p *process) probed(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/backends", nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, res.Body)
	return errors.Join(err, res.Body.Close())
}

// open measures innerd's own memory with 40 conversations whose agents are
// kept running.
func open(m measured) func(*bench, context.Context) error {
	return func(b *bench, ctx context.Context) error {
		pin, stub, err := m.agent()
		if err != nil {
			return err
		}
		defer stub.Close()
		in, err := b.innerd(ctx, append(m.env(pin, model(stub)), "INNERD_MAX_WARM=64")...)
		if err != nil {
			return err
		}
		defer in.stop()
		const conversations = 40
		for i := range conversations {
			if _, err := in.agentTurn(ctx, m.word, fmt.Sprint("bench-", i), []any{object{"role": "user", "content": hears}}); err != nil {
				return err
			}
		}
		if n, err := in.warm(ctx); err != nil || n != conversations {
			return fmt.Errorf("%d conversations are warm, not %d: %w", n, conversations, err)
		}
		rss, err := in.settled(ctx)
		if err != nil {
			return err
		}
		b.table.add(row{
			what:     fmt.Sprintf("%s %s, %d conversations open, innerd's own memory (VmRSS)", m.name, pin.Version, conversations),
			measured: mb(rss), goal: "≤ 60 MB", ok: rss <= 60e6,
		})
		return nil
	}
}

// warm counts the conversations whose agent is kept running.
func (p *process) warm(ctx context.Context) (n int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/conversations", nil)
	if err != nil {
		return 0, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close() //nolint:errcheck // only read
	var all api.Conversations
	if err := json.NewDecoder(res.Body).Decode(&all); err != nil {
		return 0, err
	}
	for _, c := range all.Conversations {
		if c.State == "idle" {
			n++
		}
	}
	return n, nil
}
