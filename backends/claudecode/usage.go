package claudecode

import (
	"time"

	"innerd/events"
)

const backendName = "claude-code"

// tally sums what the results of one run used. Claude counts over its life,
// and over resumed ones; only the part since the last result is this run's.
type tally struct {
	any      bool
	total    modelUsage
	thinking *int64
	ttft     num
}

func (t *tally) add(r *result) {
	t.any = true
	if t.ttft == 0 {
		t.ttft = r.TTFTMS
	}
	for _, u := range r.Used {
		t.total.Input += u.Input
		t.total.Output += u.Output
		t.total.CacheRead += u.CacheRead
		t.total.CacheWrite += u.CacheWrite
		t.total.Cost += u.Cost
		if u.Thinking != nil {
			if t.thinking == nil {
				t.thinking = new(int64)
			}
			*t.thinking += *u.Thinking
		}
	}
}

// usage is nil when claude gave no result.
func (t *tally) usage(model string, took time.Duration) *events.Usage {
	if !t.any {
		return nil
	}
	output := t.total.Output
	total := t.total.Input + t.total.Output + t.total.CacheRead + t.total.CacheWrite
	if t.thinking != nil {
		output = max(output-*t.thinking, 0) // counts are disjoint
	}
	u := &events.Usage{
		InputTokens: &t.total.Input, OutputTokens: &output,
		CacheReadTokens: &t.total.CacheRead, CacheWriteTokens: &t.total.CacheWrite,
		ReasoningTokens: t.thinking, TotalTokens: &total,
		Cost: &t.total.Cost, Model: model, Backend: backendName,
	}
	seconds := took.Round(time.Millisecond).Seconds()
	u.Duration = &seconds
	if t.ttft > 0 {
		ms := int64(t.ttft)
		u.TTFTMS = &ms
	}
	return u
}

// usageOf is what the beginning of a model message says; its end adds the output.
func usageOf(u apiUsage, model string) events.Usage {
	return events.Usage{
		InputTokens: u.Input, CacheReadTokens: u.CacheRead, CacheWriteTokens: u.CacheWrite,
		Model: model, Backend: backendName,
	}
}
