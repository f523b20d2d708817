package billing

import (
	"strings"

	"innerd/events"
)

// Strategy is one way to charge for a run. It is safe for concurrent use.
type Strategy interface {
	Bill(events.Usage) Bill
}

// What a Bill was made from.
const (
	BasisTokens   = "tokens"
	BasisPremium  = "premium_requests"
	BasisReported = "reported"
	BasisNone     = "none"
)

// Bill is what a run costs, and why.
type Bill struct {
	Amount Amount `json:"amount"` // US dollars
	Basis  string `json:"basis"`
	Lines  []Line `json:"lines,omitempty"`
	// Unpriced says what could not be charged: a model that is in no table, a
	// run that reported nothing. Amount is then what is left, mostly 0.
	Unpriced string `json:"unpriced,omitempty"`
}

// Line is one item of a Bill; Amount is exactly Quantity × Price × Multiplier.
type Line struct {
	What       string `json:"what"`
	Quantity   Amount `json:"quantity"`
	Price      Amount `json:"price"` // of one
	Multiplier Amount `json:"multiplier"`
	Amount     Amount `json:"amount"`
}

func (b *Bill) add(what string, quantity, price, multiplier Amount) {
	l := Line{What: what, Quantity: quantity, Price: price, Multiplier: multiplier, Amount: quantity.Mul(price).Mul(multiplier)}
	b.Lines = append(b.Lines, l)
	b.Amount = b.Amount.Add(l.Amount)
}

// None charges nothing.
type None struct{}

// Bill implements Strategy.
func (None) Bill(events.Usage) Bill { return Bill{Basis: BasisNone} }

// Price is what a million tokens of each kind cost, in US dollars. A kind that
// is not named costs what the kind it replaces does: cached input what input
// does, reasoning what output does.
type Price struct {
	Input      Amount  `json:"input"`
	Output     Amount  `json:"output"`
	CacheRead  *Amount `json:"cache_read,omitempty"`
	CacheWrite *Amount `json:"cache_write,omitempty"`
	Reasoning  *Amount `json:"reasoning,omitempty"`
}

// TokenBased charges tokens by a table, times a multiplier.
type TokenBased struct {
	Models     map[string]Price // by the beginning of a model's name; "" is for all others
	Multiplier *Amount          // nil: 1
}

// Bill implements Strategy.
func (s TokenBased) Bill(u events.Usage) Bill {
	b := Bill{Basis: BasisTokens}
	p, _, ok := longest(s.Models, u.Model)
	if !ok {
		b.Unpriced = "no price for the model " + quoteModel(u.Model)
		return b
	}
	m := or(s.Multiplier, Int(1))
	for _, k := range []struct {
		what  string
		count *int64
		price Amount
	}{
		{"input", u.InputTokens, p.Input},
		{"cache_read", u.CacheReadTokens, or(p.CacheRead, p.Input)},
		{"cache_write", u.CacheWriteTokens, or(p.CacheWrite, p.Input)},
		{"output", u.OutputTokens, p.Output},
		{"reasoning", u.ReasoningTokens, or(p.Reasoning, p.Output)},
	} {
		if k.count != nil && *k.count != 0 {
			b.add(k.what, Int(*k.count), k.price.perMillion(), m)
		}
	}
	if len(b.Lines) == 0 {
		b.Unpriced = "the run reported no tokens"
	}
	return b
}

// ProviderReported charges what the vendor counts: premium requests where the
// run has some, else the cost that it reported, else tokens.
//
// The number of premium requests is the exact one where the run has it. An
// agent that already multiplies by its model's factor needs no Multipliers.
type ProviderReported struct {
	PremiumPrice Amount            // of one premium request
	Multipliers  map[string]Amount // by the beginning of a model's name; none: 1
	Tokens       TokenBased        // where nothing else is reported
}

// Bill implements Strategy.
func (s ProviderReported) Bill(u events.Usage) Bill {
	if n, ok := premium(u); ok {
		b := Bill{Basis: BasisPremium}
		m, _, ok := longest(s.Multipliers, u.Model)
		if !ok {
			m = Int(1)
		}
		b.add("premium_requests", n, s.PremiumPrice, m)
		return b
	}
	if u.Cost != nil {
		b := Bill{Basis: BasisReported}
		b.add("reported", Int(1), Float(*u.Cost), Int(1))
		return b
	}
	return s.Tokens.Bill(u)
}

func premium(u events.Usage) (Amount, bool) {
	switch {
	case u.PremiumRequestsExact != nil && *u.PremiumRequestsExact > 0:
		return Float(*u.PremiumRequestsExact), true
	case u.PremiumRequests != nil && *u.PremiumRequests > 0:
		return Int(*u.PremiumRequests), true
	}
	return Amount{}, false
}

// longest finds the entry whose name is the longest beginning of a model's.
func longest[T any](table map[string]T, model string) (best T, name string, ok bool) {
	for n, v := range table {
		if strings.HasPrefix(model, n) && (!ok || len(n) > len(name)) {
			best, name, ok = v, n, true
		}
	}
	return best, name, ok
}

func or(a *Amount, b Amount) Amount {
	if a != nil {
		return *a
	}
	return b
}

func quoteModel(m string) string {
	if m == "" {
		return "that was not named"
	}
	return m
}
