package billing

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"innerd/events"
)

// Attributed is what begins the backend's name in the usage of a delegated
// answer: "a2a:claude-code".
const Attributed = "a2a:"

// Book is a Strategy for each backend, by name, with or without Attributed.
type Book struct {
	Default  Strategy // for all others; nil: None
	Backends map[string]Strategy
}

// Bill implements Strategy.
func (b *Book) Bill(u events.Usage) Bill {
	s := b.Backends[u.Backend]
	if s == nil {
		s = b.Backends[strings.TrimPrefix(u.Backend, Attributed)]
	}
	if s == nil {
		s = b.Default
	}
	if s == nil {
		s = None{}
	}
	return s.Bill(u)
}

// entry is a strategy in JSON.
type entry struct {
	Strategy     string            `json:"strategy"`
	Models       map[string]Price  `json:"models"`
	Multiplier   *Amount           `json:"multiplier"`
	PremiumPrice *Amount           `json:"premium_price"`
	Multipliers  map[string]Amount `json:"multipliers"`
}

func (e *entry) strategy(where string) (Strategy, error) {
	tokens := TokenBased{Models: e.Models, Multiplier: e.Multiplier}
	if err := e.check(); err != nil {
		return nil, fmt.Errorf("billing: %s: %w", where, err)
	}
	switch e.Strategy {
	case "none":
		return None{}, nil
	case "token_based":
		return tokens, nil
	}
	return ProviderReported{PremiumPrice: or(e.PremiumPrice, Amount{}), Multipliers: e.Multipliers, Tokens: tokens}, nil
}

// check refuses what would make a bill wrong without a word.
func (e *entry) check() error {
	premium := e.PremiumPrice != nil || len(e.Multipliers) > 0
	switch e.Strategy {
	case "none":
		if premium || len(e.Models) > 0 || e.Multiplier != nil {
			return errors.New("the strategy none has no table")
		}
	case "token_based":
		if premium {
			return errors.New("premium_price and multipliers belong to provider_reported")
		}
		if len(e.Models) == 0 {
			return errors.New("token_based needs models")
		}
	case "provider_reported":
		if len(e.Multipliers) > 0 && e.PremiumPrice == nil {
			return errors.New("multipliers need a premium_price")
		}
	default:
		return fmt.Errorf("strategy %q is none of token_based, provider_reported, none", e.Strategy)
	}
	return e.negative()
}

func (e *entry) negative() error {
	all := []*Amount{e.Multiplier, e.PremiumPrice}
	for _, m := range e.Multipliers {
		all = append(all, &m)
	}
	for _, p := range e.Models {
		all = append(all, &p.Input, &p.Output, p.CacheRead, p.CacheWrite, p.Reasoning)
	}
	for _, a := range all {
		if a != nil && a.Sign() < 0 {
			return fmt.Errorf("%s is below zero", a)
		}
	}
	return nil
}

// ReadBook reads a Book from JSON, as the package comment shows it. Fields that
// it does not know are an error: a misspelt price would be no price.
func ReadBook(r io.Reader) (*Book, error) {
	var w struct {
		Default  *entry            `json:"default"`
		Backends map[string]*entry `json:"backends"`
	}
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&w); err != nil {
		return nil, fmt.Errorf("billing: %w", err)
	}
	b := &Book{Backends: map[string]Strategy{}}
	var err error
	if w.Default != nil {
		if b.Default, err = w.Default.strategy("default"); err != nil {
			return nil, err
		}
	}
	for name, e := range w.Backends {
		if e == nil {
			return nil, fmt.Errorf("billing: %s: is null", name)
		}
		if b.Backends[name], err = e.strategy(name); err != nil {
			return nil, err
		}
	}
	return b, nil
}
