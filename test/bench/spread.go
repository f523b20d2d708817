package main

import (
	"math/rand/v2"
	"time"
)

// compared are times of innerd and of what it is compared with, in groups that
// were measured under one condition: the turns of two processes of an agent, say,
// which differ for all of their lives. What the difference is worth is seen by how
// much it moves from group to group, not from turn to turn.
type compared [][2][]time.Duration

// times are those of all groups; 0: innerd's, 1: the other's.
func (c compared) times(which int) (all []time.Duration) {
	for _, g := range c {
		all = append(all, g[which]...)
	}
	return all
}

// more is the difference of the medians.
func (c compared) more() time.Duration { return median(c.times(0)) - median(c.times(1)) }

// between gives the bounds within which more lies with 95 % (a bootstrap: the
// groups are drawn anew from themselves, and the same numbers give the same bounds).
func (c compared) between() (low, high time.Duration) {
	const draws = 1000
	random := rand.New(rand.NewPCG(1, 1))
	seen, drawn := make([]time.Duration, draws), make(compared, len(c))
	for i := range seen {
		for j := range drawn {
			drawn[j] = c[random.IntN(len(c))]
		}
		seen[i] = drawn.more()
	}
	return quantile(seen, .025), quantile(seen, .975)
}

// single has each pair as a group of its own.
func single(took [2][]time.Duration) (c compared) {
	for i := range took[0] {
		c = append(c, [2][]time.Duration{took[0][i : i+1], took[1][i : i+1]})
	}
	return c
}
