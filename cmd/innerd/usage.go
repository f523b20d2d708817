package main

import (
	"fmt"
	"strconv"
	"strings"

	"innerd/events"
)

// usageLine is what a turn cost: agent, model, tokens, money, time; what is
// unknown is left out.
func usageLine(u *events.Usage) string {
	if u == nil {
		return ""
	}
	var parts []string
	add := func(s string) {
		if s != "" {
			parts = append(parts, s)
		}
	}
	add(u.Backend)
	add(u.Model)
	var tokens []string
	for _, t := range []struct {
		n    *int64
		word string
	}{
		{u.InputTokens, "in"},
		{u.CacheReadTokens, "cached"},
		{u.CacheWriteTokens, "cache write"},
		{u.ReasoningTokens, "reasoning"},
		{u.OutputTokens, "out"},
	} {
		if t.n != nil && (*t.n > 0 || t.word == "in" || t.word == "out") {
			tokens = append(tokens, thousands(*t.n)+" "+t.word)
		}
	}
	if len(tokens) > 0 {
		add(strings.Join(tokens, " + ") + " tokens")
	}
	if u.Cost != nil {
		add(fmt.Sprintf("$%.4f", *u.Cost))
	}
	if u.PremiumRequests != nil {
		add(fmt.Sprintf("%d premium requests", *u.PremiumRequests))
	}
	if u.Duration != nil {
		add(fmt.Sprintf("%.1f s", *u.Duration))
	}
	return strings.Join(parts, " · ")
}

func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
