package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
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
// turn through innerd and over the pipes of a process of our own, in turn; a few
// in each of many conversations: two processes of one agent alone differ by
// milliseconds, and a conversation of many turns would be measured with its length.
func warm(m measured) func(*bench, context.Context) error {
	return func(b *bench, ctx context.Context) error {
		pin, stub, err := m.agent()
		if err != nil {
			return err
		}
		defer stub.Close()
		const goal = 2 * time.Millisecond
		var took compared
		for range b.some(60, 1) {
			two, err := b.warmPairs(ctx, m, pin, stub)
			if err != nil {
				return err
			}
			took = append(took, two)
		}
		b.added(m, pin, "warm turn", took, goal)
		return nil
	}
}

// warmPairs measures the turns of one conversation, and of one beside innerd.
func (b *bench) warmPairs(ctx context.Context, m measured, pin agents.Pinned, stub *modelstub.Server) (took [2][]time.Duration, err error) {
	dir, err := b.folder()
	if err != nil {
		return took, err
	}
	one, err := m.direct(ctx, dir, pin, model(stub))
	if err != nil {
		return took, err
	}
	defer one.stop()
	in, err := b.innerd(ctx, m.env(pin, model(stub))...)
	if err != nil {
		return took, err
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
	return pairs(5, b.some(6, 10), ours, theirs)
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
		took, err := pairs(1, b.some(b.cold, 10), ours, theirs)
		if err == nil {
			b.added(m, pin, "cold first turn"+m.with, single(took), 20*time.Millisecond)
		}
		return err
	}
}

// settle is the pause before each turn: what the one before it still does, its agent
// too, is not to be measured with the next.
const settle = 30 * time.Millisecond

// some is how many there are of something: few where it is to be quick.
func (b *bench) some(n, few int) int {
	if b.quick {
		return few
	}
	return n
}

// pairs measures n pairs, in turn the one and the other first, after some that
// warm up.
func pairs(before, n int, ours, theirs func(int) (time.Duration, error)) (took [2][]time.Duration, err error) {
	for i := range before + n {
		for k := range 2 {
			which := (i + k) % 2
			time.Sleep(settle)
			d, err := []func(int) (time.Duration, error){ours, theirs}[which](i)
			if err != nil {
				return took, err
			}
			if i >= before {
				took[which] = append(took[which], d)
			}
		}
	}
	return took, nil
}

// added reports what innerd adds to an agent's turn.
func (b *bench) added(m measured, pin agents.Pinned, what string, took compared, goal time.Duration) {
	a, d := took.times(0), took.times(1)
	fmt.Fprintf(os.Stderr, "  innerd p10 %s, median %s, p90 %s; direct %s, %s, %s\n",
		ms(quantile(a, .1)), ms(median(a)), ms(quantile(a, .9)), ms(quantile(d, .1)), ms(median(d)), ms(quantile(d, .9)))
	more := took.more()
	low, high := took.between()
	b.table.add(row{
		what:     fmt.Sprintf("%s %s, %s to first delta, added by innerd, %d pairs", m.name, pin.Version, what, len(a)),
		measured: fmt.Sprintf("%s (%.1f to %.1f)", ms(more), low.Seconds()*1e3, high.Seconds()*1e3), limit: ms(median(d)) + " direct",
		goal: fmt.Sprintf("≤ %d ms", goal.Milliseconds()), ok: more <= goal,
	})
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
		if free := available(); !m.shared && free < ownProcesses {
			fmt.Fprintf(os.Stderr, "  not measured: 40 processes of the agent need %s, and %s are there\n", mb(ownProcesses), mb(free))
			return nil
		}
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

// ownProcesses is what 40 conversations need whose agents are a process each, in bytes.
const ownProcesses = 40 * 200e6

// available is the memory that the machine has to give, in bytes; 0: not known.
func available() (bytes int64) {
	raw, _ := os.ReadFile("/proc/meminfo")
	_, rest, _ := strings.Cut(string(raw), "MemAvailable:")
	var kb int64
	_, _ = fmt.Sscan(rest, &kb)
	return kb << 10
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
