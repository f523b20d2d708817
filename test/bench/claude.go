package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"innerd/test/agents"
	"innerd/test/modelstub"
	"innerd/test/modelstub/claudecli"
)

// claude measures what innerd adds to the first delta of a warm turn of the
// real Claude Code: the same turn through innerd and over the pipes of a
// process of our own, in turn.
func (b *bench) claude(ctx context.Context) (err error) {
	cli, err := agents.Find("claude-code")
	if err != nil {
		return err
	}
	defer recovered(&err)
	tb := &standIn{ctx: ctx}
	defer tb.cleanup()
	stub := modelstub.New()
	defer stub.Close()
	turn := modelstub.Say(modelstub.Text(claudeSays))

	direct := stub.Scenario(turn.Forever())
	home, err := os.MkdirTemp(b.dir, "direct-")
	if err != nil {
		return err
	}
	one := claudecli.Start(tb, claudecli.Options{
		Path: cli.Path, Dir: home, Home: home, BaseURL: direct.BaseURL(), Key: direct.Key(),
	})
	through := stub.Scenario(turn.Forever())
	in, err := b.innerd(ctx, "INNERD_CLAUDE_CODE_PATH="+cli.Path, "ANTHROPIC_BASE_URL="+through.BaseURL(), "ANTHROPIC_API_KEY="+through.Key())
	if err != nil {
		return err
	}
	defer in.stop()

	pairs, warm := 60, 5
	if b.quick {
		pairs = 10
	}
	var ours, theirs []time.Duration
	var said []any
	for i := range warm + pairs {
		var a, d time.Duration
		for k := range 2 { // in turn the one and the other first
			if (i+k)%2 == 0 {
				d = directTurn(one, i)
				continue
			}
			said = append(said, map[string]any{"role": "user", "content": claudeHears})
			if a, err = in.claudeTurn(ctx, said); err != nil {
				return err
			}
			said = append(said, map[string]any{"role": "assistant", "content": claudeSays})
		}
		if i >= warm {
			ours, theirs = append(ours, a), append(theirs, d)
		}
	}
	fmt.Fprintf(os.Stderr, "  innerd p10 %s, median %s, p90 %s; direct %s, %s, %s\n",
		ms(quantile(ours, .1)), ms(median(ours)), ms(quantile(ours, .9)), ms(quantile(theirs, .1)), ms(median(theirs)), ms(quantile(theirs, .9)))
	added := median(ours) - median(theirs)
	b.table.add(row{
		what:     fmt.Sprintf("Claude Code %s, warm turn to first delta, added by innerd, %d pairs", cli.Version, pairs),
		measured: ms(added), limit: ms(median(theirs)) + " direct", goal: "≤ 2 ms", ok: added <= 2*time.Millisecond,
	})
	return nil
}

const (
	claudeHears = "Say hello."
	claudeSays  = "Hello there, this is a short answer."
)

// directTurn says something and gives the time to the first delta.
func directTurn(cli *claudecli.CLI, i int) time.Duration {
	began := time.Now()
	cli.Say(fmt.Sprintf("00000000-0000-4000-8000-%012d", i), claudeHears)
	cli.Await("stream_event/content_block_delta")
	took := time.Since(began)
	cli.Await("result")
	return took
}

// claudeTurn is the same through innerd. It brings the whole conversation, as
// hosts do: the agent knows it, and goes on.
func (p *process) claudeTurn(ctx context.Context, messages []any) (time.Duration, error) {
	return firstOf(ctx, http.DefaultClient, p.url+"/message:stream", map[string]any{
		"context_id": "bench",
		"messages":   messages,
		"metadata":   map[string]any{"backend": "claude-code"},
	})
}

// standIn is what claudecli needs of a test.
type standIn struct {
	testing.TB
	ctx  context.Context
	ends []func()
}

var errStandIn = errors.New("claude over its pipes")

func (s *standIn) Helper()                  {}
func (s *standIn) Context() context.Context { return s.ctx }
func (s *standIn) Cleanup(f func())         { s.ends = append(s.ends, f) }
func (s *standIn) Error(args ...any)        { fmt.Fprintln(os.Stderr, args...) }
func (s *standIn) Errorf(f string, a ...any) {
	fmt.Fprintf(os.Stderr, f+"\n", a...)
}

func (s *standIn) Fatal(args ...any)         { panic(fmt.Errorf("%w: %s", errStandIn, fmt.Sprint(args...))) }
func (s *standIn) Fatalf(f string, a ...any) { s.Fatal(fmt.Sprintf(f, a...)) }

func (s *standIn) cleanup() {
	for _, f := range s.ends {
		f()
	}
}

// recovered makes an error of what a standIn found fatal.
func recovered(err *error) {
	v := recover()
	if v == nil {
		return
	}
	if e, ok := v.(error); ok && errors.Is(e, errStandIn) {
		*err = errors.Join(*err, e)
		return
	}
	panic(v)
}
