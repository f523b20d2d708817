package main

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestBetween: pairs of a group that differ in one direction for all of its life
// make the bounds wide, however many there are; pairs that differ each for itself
// do not.
func TestBetween(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	some := func(groups, pairs int, ofGroup, ofPair float64) (c compared) {
		for range groups {
			var g [2][]time.Duration
			for which := range g {
				shift := random.NormFloat64() * ofGroup
				for range pairs {
					g[which] = append(g[which], time.Duration((20+shift+random.NormFloat64()*ofPair-float64(which))*1e6))
				}
			}
			c = append(c, g)
		}
		return c
	}
	for _, c := range []struct {
		name           string
		of             compared
		narrow, widest time.Duration
	}{
		{"each pair for itself", some(20, 15, 0, 1), 0, 600 * time.Microsecond},
		{"each group for itself", some(20, 15, 2, 0.1), 1500 * time.Microsecond, 5 * time.Millisecond},
	} {
		low, high := c.of.between()
		if more := c.of.more(); low > more || more > high || low > time.Millisecond || high < time.Millisecond {
			t.Errorf("%s: %s between %s and %s; it is 1 ms", c.name, more, low, high)
		}
		if wide := high - low; wide < c.narrow || wide > c.widest {
			t.Errorf("%s: %s wide", c.name, wide)
		}
	}
}

// TestSingle: no pair is lost, and none is torn.
func TestSingle(t *testing.T) {
	c := single([2][]time.Duration{{3, 1, 2}, {30, 10, 20}})
	if len(c) != 3 || c[1][0][0] != 1 || c[1][1][0] != 10 || c.more() != 2-20 {
		t.Errorf("%v, %s", c, c.more())
	}
}
