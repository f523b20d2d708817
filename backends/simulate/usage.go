package simulate

import (
	"time"

	"innerd/backends"
	"innerd/events"
)

// counter counts what a turn used. What a script gives replaces the estimate
// whole, so that a test finds exactly its own numbers.
type counter struct {
	start, first time.Time // first: of the first delta
	model        string
	heard        int64 // bytes
	said         int64
	reasoned     int64
	given        *events.Usage
}

// delta notes that something was said.
func (c *counter) delta() {
	if c.first.IsZero() {
		c.first = time.Now()
	}
}

// tokens estimates.
func tokens(bytes int64) *int64 {
	n := (bytes + 3) / 4
	return &n
}

// weight is how many bytes the model would be sent.
func weight(t Told) (n int64) {
	n = int64(len(t.System))
	for _, e := range t.Entries {
		n += int64(len(e.Text))
		for _, p := range e.Parts {
			n += int64(len(p.Text) + len(p.Data) + len(p.JSON))
		}
	}
	return n
}

// add sums up what a script gives.
func (c *counter) add(u events.Usage) {
	if c.given == nil {
		c.given = &events.Usage{}
	}
	g := c.given
	sum(&g.InputTokens, u.InputTokens)
	sum(&g.OutputTokens, u.OutputTokens)
	sum(&g.CacheReadTokens, u.CacheReadTokens)
	sum(&g.CacheWriteTokens, u.CacheWriteTokens)
	sum(&g.ReasoningTokens, u.ReasoningTokens)
	sum(&g.TotalTokens, u.TotalTokens)
	sum(&g.Cost, u.Cost)
	sum(&g.PremiumRequests, u.PremiumRequests)
	sum(&g.PremiumRequestsExact, u.PremiumRequestsExact)
	if u.Duration != nil {
		g.Duration = u.Duration
	}
	if u.TTFTMS != nil {
		g.TTFTMS = u.TTFTMS
	}
	if u.Model != "" {
		g.Model = u.Model
	}
}

func sum[N int64 | float64](to **N, n *N) {
	if n == nil {
		return
	}
	s := *n
	if *to != nil {
		s += **to
	}
	*to = &s
}

// total is the usage of the run.
func (c *counter) total() events.Usage {
	u := events.Usage{}
	if c.given != nil {
		u = *c.given
	} else {
		u.InputTokens, u.OutputTokens, u.ReasoningTokens = tokens(c.heard), tokens(c.said), tokens(c.reasoned)
	}
	if u.TotalTokens == nil {
		for _, n := range []*int64{u.InputTokens, u.OutputTokens, u.CacheReadTokens, u.CacheWriteTokens, u.ReasoningTokens} {
			sum(&u.TotalTokens, n)
		}
	}
	if u.Duration == nil {
		d := time.Since(c.start).Seconds()
		u.Duration = &d
	}
	if u.TTFTMS == nil && !c.first.IsZero() {
		ms := c.first.Sub(c.start).Milliseconds()
		u.TTFTMS = &ms
	}
	if u.Model == "" {
		u.Model = c.model
	}
	u.Backend = Name
	return u
}

// usageStep gives usage instead of an estimate; several add up.
type usageStep struct{ u events.Usage }

func makeUsage(o *object) step {
	in := o.inner("usage", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens",
		"reasoning_tokens", "total_tokens", "cost", "premium_requests", "premium_requests_exact",
		"duration", "ttft_ms", "model")
	return usageStep{events.Usage{
		InputTokens: in.count("input_tokens"), OutputTokens: in.count("output_tokens"),
		CacheReadTokens: in.count("cache_read_tokens"), CacheWriteTokens: in.count("cache_write_tokens"),
		ReasoningTokens: in.count("reasoning_tokens"), TotalTokens: in.count("total_tokens"),
		Cost: in.amount("cost"), PremiumRequests: in.count("premium_requests"),
		PremiumRequestsExact: in.amount("premium_requests_exact"),
		Duration:             in.amount("duration"), TTFTMS: in.count("ttft_ms"), Model: in.str("model"),
	}}
}

func (o *object) count(key string) *int64 {
	if !o.has(key) {
		return nil
	}
	n := o.integer(key, 0, 1<<52)
	return &n
}

func (o *object) amount(key string) *float64 {
	if !o.has(key) {
		return nil
	}
	n := o.number(key)
	return &n
}

func (s usageStep) play(t *turn) error {
	t.usage.add(s.u)
	t.emit(events.TurnUsage{Usage: s.u})
	if limit, cost := t.in.Set.MaxCost, t.usage.given.Cost; limit > 0 && cost != nil && *cost >= limit {
		t.reason = backends.ReasonMaxCost
		return errDone
	}
	return nil
}

func (usageStep) says() bool { return false }
