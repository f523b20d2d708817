package billing_test

import (
	"encoding/json"
	"math/big"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"innerd/events"
	"innerd/host/billing"
)

func ptr[T any](v T) *T { return &v }

func book(t *testing.T) *billing.Book {
	t.Helper()
	f, err := os.Open("testdata/book.json")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // only read
	b, err := billing.ReadBook(f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Each example is worked out by hand in its comment.
func TestWorkedExamples(t *testing.T) {
	b := book(t)
	for name, c := range map[string]struct {
		usage  events.Usage
		amount string
		basis  string
		lines  int
	}{
		// (1000×3 + 500×15 + 20000×0.30 + 100×3.75) / 1e6 × 1.25 = 16875/1e6 × 1.25 = 0.02109375
		"tokens of every kind, and a multiplier": {
			events.Usage{Backend: "claude-code", Model: "large-2026", InputTokens: ptr(int64(1000)), OutputTokens: ptr(int64(500)), CacheReadTokens: ptr(int64(20000)), CacheWriteTokens: ptr(int64(100))},
			"0.02109375", billing.BasisTokens, 4,
		},
		// the longest beginning: (10×6 + 10×30 + 10×6)/1e6 × 1.25; cached input has no price of its own
		"the longest name counts": {
			events.Usage{Backend: "claude-code", Model: "large-fast-1", InputTokens: ptr(int64(10)), OutputTokens: ptr(int64(10)), CacheReadTokens: ptr(int64(10))},
			"0.000525", billing.BasisTokens, 3,
		},
		// (1×0.15 + 1×0.6 + 1×1.2)/1e6 × 1.25: digits that a float loses
		"one token each": {
			events.Usage{Model: "small", InputTokens: ptr(int64(1)), OutputTokens: ptr(int64(1)), ReasoningTokens: ptr(int64(1))},
			"0.0000024375", billing.BasisTokens, 3,
		},
		// 3 × 10 × 0.04
		"premium requests": {
			events.Usage{Backend: "a2a:copilot", Model: "large-fast", PremiumRequests: ptr(int64(3)), Cost: ptr(99.0)},
			"1.2", billing.BasisPremium, 1,
		},
		// 0.33 × 0.33 × 0.04: the exact number, not the one that was rounded up
		"the exact number of premium requests": {
			events.Usage{Backend: "copilot", Model: "tiny-4", PremiumRequests: ptr(int64(1)), PremiumRequestsExact: ptr(0.33)},
			"0.004356", billing.BasisPremium, 1,
		},
		// 2 × 1 × 0.04: a model in no table
		"premium requests of an unknown model": {
			events.Usage{Backend: "copilot", Model: "other", PremiumRequests: ptr(int64(2))},
			"0.08", billing.BasisPremium, 1,
		},
		"a model that costs no premium request": {
			events.Usage{Backend: "copilot", Model: "free-1", PremiumRequests: ptr(int64(7))},
			"0", billing.BasisPremium, 1,
		},
		"the cost that was reported": {
			events.Usage{Backend: "copilot", Model: "large", PremiumRequests: ptr(int64(0)), Cost: ptr(0.1)},
			"0.1", billing.BasisReported, 1,
		},
		// (100×1 + 10×2)/1e6, without the multiplier of another entry
		"tokens where nothing is reported": {
			events.Usage{Backend: "copilot", Model: "anything", InputTokens: ptr(int64(100)), OutputTokens: ptr(int64(10))},
			"0.00012", billing.BasisTokens, 2,
		},
		"none": {
			events.Usage{Backend: "a2a:simulate", Model: "large", InputTokens: ptr(int64(1e9)), Cost: ptr(5.0)},
			"0", billing.BasisNone, 0,
		},
	} {
		got := b.Bill(c.usage)
		if got.Amount.String() != c.amount || got.Basis != c.basis || len(got.Lines) != c.lines || got.Unpriced != "" {
			raw, _ := json.Marshal(got)
			t.Errorf("%s: %s, want %s by %s", name, raw, c.amount, c.basis)
		}
	}
}

// What cannot be charged says so.
func TestUnpriced(t *testing.T) {
	b := book(t)
	for _, u := range []events.Usage{{Model: "unheard-of", InputTokens: ptr(int64(1))}, {InputTokens: ptr(int64(1))}, {Model: "large"}} {
		if got := b.Bill(u); got.Unpriced == "" || got.Amount.Sign() != 0 {
			t.Errorf("%+v: %+v", u, got)
		}
	}
	if got := (&billing.Book{}).Bill(events.Usage{Cost: ptr(1.0)}); got.Basis != billing.BasisNone || got.Amount.Sign() != 0 {
		t.Errorf("an empty book: %+v", got)
	}
}

func TestReadBookRefuses(t *testing.T) {
	for _, s := range []string{
		``, `[]`, `{"defualt":{}}`, `{"default":{"strategy":"free"}}`, `{"default":{}}`, `{"backends":{"x":null}}`,
		`{"default":{"strategy":"none","multiplier":"2"}}`,
		`{"default":{"strategy":"token_based"}}`,
		`{"default":{"strategy":"token_based","premium_price":"1","models":{"a":{"input":"1","output":"1"}}}}`,
		`{"default":{"strategy":"token_based","models":{"a":{"input":"-1","output":"1"}}}}`,
		`{"default":{"strategy":"token_based","models":{"a":{"input":"1/3","output":"1"}}}}`,
		`{"default":{"strategy":"token_based","models":{"a":{"imput":"1","output":"1"}}}}`,
		`{"default":{"strategy":"provider_reported","multipliers":{"a":"1"}}}`,
		`{"default":{"strategy":"provider_reported","premium_price":"1e999999999"}}`,
	} {
		if b, err := billing.ReadBook(strings.NewReader(s)); err == nil {
			t.Errorf("%s became %+v", s, b)
		}
	}
}

func TestAmounts(t *testing.T) {
	for s, want := range map[string]string{"0.10": "0.1", "-3": "-3", "3e-6": "0.000003", "+1.": "1", ".5": "0.5", "12E2": "1200", "0": "0"} {
		if a, err := billing.Parse(s); err != nil || a.String() != want {
			t.Errorf("%q: %s %v", s, a, err)
		}
	}
	for _, s := range []string{"", ".", "1/3", "0x10", "1e", "1e51", "--1", "Inf", "NaN", "1_000", "1.2.3", "0b1", strings.Repeat("9", 101), "1p4"} {
		if a, err := billing.Parse(s); err == nil {
			t.Errorf("%q became %s", s, a)
		}
	}
	for places, want := range map[int]string{-1: "1", 0: "1", 1: "1.0", 2: "1.01", 4: "1.0050"} {
		if got := mustParse(t, "1.005").Round(places); got != want {
			t.Errorf("%d places: %s", places, got)
		}
	}
	if raw, err := json.Marshal(billing.Amount{}); err != nil || string(raw) != `"0"` {
		t.Errorf("%s %v", raw, err)
	}
}

func mustParse(t *testing.T, s string) billing.Amount {
	t.Helper()
	a, err := billing.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// A bill is the exact sum of its lines, and what is written is what is read.
func TestBillsAreExact(t *testing.T) {
	b := book(t)
	rapid.Check(t, func(t *rapid.T) {
		count := func(name string) *int64 { return ptr(rapid.Int64Range(0, 1e12).Draw(t, name)) }
		u := events.Usage{
			Model:       rapid.SampledFrom([]string{"large", "large-fast", "small-x"}).Draw(t, "model"),
			InputTokens: count("in"), OutputTokens: count("out"), CacheReadTokens: count("read"), ReasoningTokens: count("think"),
		}
		bill, sum := b.Bill(u), billing.Amount{}
		for _, l := range bill.Lines {
			sum = sum.Add(l.Quantity.Mul(l.Price).Mul(l.Multiplier))
		}
		raw, err := json.Marshal(bill)
		if err != nil {
			t.Fatal(err)
		}
		var back billing.Bill
		if err := json.Unmarshal(raw, &back); err != nil || back.Amount.Cmp(bill.Amount) != 0 || sum.Cmp(bill.Amount) != 0 {
			t.Fatalf("%s: sum %s, read again %s, %v", raw, sum, back.Amount, err)
		}
		if r, ok := new(big.Rat).SetString(bill.Amount.String()); !ok || r.Sign() < 0 {
			t.Fatalf("%s", raw)
		}
	})
}
