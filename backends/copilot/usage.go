package copilot

import (
	"math"
	"time"

	"innerd/events"
)

// tally sums what the model requests of one run used: copilot tells each one
// by itself, those of sub-agents and of a compaction too.
type tally struct {
	any       bool
	input     int64 // without cached ones
	output    int64 // without reasoning
	read      int64
	write     int64
	reasoning *int64
	premium   *float64
}

func (t *tally) add(u *usage) {
	t.any = true
	d := u.disjoint()
	t.input += d.input
	t.output += d.output
	t.read += d.read
	t.write += d.write
	if d.reasoning != nil {
		t.reasoning = plus(t.reasoning, *d.reasoning)
	}
	if u.Cost != nil {
		// Each request tells what one costs; only those that a user's input
		// begins are charged.
		charged := 0.0
		if u.Initiator == "" || u.Initiator == "user" {
			charged = float64(*u.Cost)
		}
		t.premium = plus(t.premium, charged)
	}
}

func plus[T int64 | float64](sum *T, n T) *T {
	if sum == nil {
		sum = new(T)
	}
	*sum += n
	return sum
}

// disjoint takes out of copilot's counts what is counted beside them.
func (u *usage) disjoint() tally {
	count := func(n *num) int64 {
		if n == nil {
			return 0
		}
		return int64(*n)
	}
	t := tally{read: count(u.CacheRead), write: count(u.CacheWrite), output: count(u.Output)}
	t.input = max(count(u.Input)-t.read-t.write, 0)
	if u.Reasoning != nil {
		n := count(u.Reasoning)
		t.reasoning, t.output = &n, max(t.output-n, 0)
	}
	return t
}

// events is the usage of one model answer.
func (u *usage) events(model string) events.Usage {
	d := u.disjoint()
	out := d.counts()
	out.Model, out.Backend = model, backendName
	return *out
}

func (t *tally) counts() *events.Usage {
	in, out, read, write := t.input, t.output, t.read, t.write
	total := in + out + read + write
	u := &events.Usage{InputTokens: &in, OutputTokens: &out, CacheReadTokens: &read, CacheWriteTokens: &write, TotalTokens: &total}
	if t.reasoning != nil {
		n := *t.reasoning
		total += n
		u.ReasoningTokens = &n
	}
	return u
}

// usage is the run's; without counts when no model told any. Copilot tells no
// money: what it calls cost is premium requests.
func (t *tally) usage(model string, took, first time.Duration) *events.Usage {
	u := new(events.Usage)
	if t.any {
		u = t.counts()
	}
	u.Model, u.Backend = model, backendName
	if t.premium != nil {
		exact := *t.premium
		whole := int64(math.Ceil(exact - 1e-9)) // 0.33 three times is 0.99, and 1.0000000000000002 is 1
		u.PremiumRequests, u.PremiumRequestsExact = &whole, &exact
	}
	seconds := took.Round(time.Millisecond).Seconds()
	u.Duration = &seconds
	if first > 0 {
		ms := first.Milliseconds()
		u.TTFTMS = &ms
	}
	return u
}
