package codex

import (
	"time"

	"innerd/events"
)

// tally is what a run uses. Codex counts over a thread's life, and over
// resumed ones; only what came since the run began is its own.
type tally struct {
	began       time.Time
	ttft        time.Duration
	base, total counts
	agents      map[string]agentCounts
}

// agentCounts are a sub-agent's, whose thread may be older than the run.
type agentCounts struct{ base, total counts }

func (t *tally) first() {
	if t.ttft == 0 {
		t.ttft = max(time.Since(t.began), time.Millisecond)
	}
}

func (t *tally) sum() counts {
	c := t.total.minus(t.base)
	for _, a := range t.agents {
		c = c.plus(a.total.minus(a.base))
	}
	return c
}

func (t *tally) used() bool { return t.sum() != counts{} }

// usage is the run's.
func (t *tally) usage(model string) events.Usage {
	u := usageOf(t.sum(), model)
	seconds := time.Since(t.began).Round(time.Millisecond).Seconds()
	u.Duration = &seconds
	if t.ttft > 0 {
		ms := max(t.ttft.Milliseconds(), 1)
		u.TTFTMS = &ms
	}
	return u
}

func (c counts) minus(b counts) counts {
	return counts{
		c.Total - b.Total, c.Input - b.Input, c.CacheRead - b.CacheRead,
		c.CacheWrite - b.CacheWrite, c.Output - b.Output, c.Reasoning - b.Reasoning,
	}
}

func (c counts) plus(b counts) counts { return c.minus(counts{}.minus(b)) }

// usageOf makes the counts disjoint.
func usageOf(c counts, model string) events.Usage {
	input := max(c.Input-c.CacheRead-c.CacheWrite, 0)
	output := max(c.Output-c.Reasoning, 0)
	total := input + c.CacheRead + c.CacheWrite + output + c.Reasoning
	return events.Usage{
		InputTokens: &input, OutputTokens: &output, CacheReadTokens: &c.CacheRead, CacheWriteTokens: &c.CacheWrite,
		ReasoningTokens: &c.Reasoning, TotalTokens: &total, Model: model, Backend: backendName,
	}
}
