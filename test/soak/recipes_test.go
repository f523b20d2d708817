//go:build linux

package soak_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"innerd/backends/simulate"
)

const prose = "Of all that is said here nothing may be lost, whoever reads it and however slowly they do. "

// recipes make steps of each kind, small and quick ones; n differs from turn to
// turn.
var recipes = map[string]func(n int) []object{
	"text": func(n int) []object {
		return []object{{"text": strings.Repeat(prose, 1+n%8), "delay_ms": n % 4}, {"text": "ha"}, {"text": "ha", "chunk_bytes": 1}}
	},
	"reasoning": func(n int) []object {
		return []object{{"reasoning": strings.Repeat(prose, 1+n%4), "chunk_bytes": 1 + n%40}}
	},
	"tool": func(n int) []object {
		return []object{{"tool": object{"name": "shell", "input": object{"command": fmt.Sprint("echo ", n)}, "output": strings.Repeat("line\n", n%200), "exit_code": n % 3, "ms": n % 30}}}
	},
	"call": func(n int) []object {
		return []object{{"call": object{"tool": "lookup", "arguments": object{"n": n}}}}
	},
	"calls": func(n int) []object {
		return []object{{"calls": []object{{"tool": "lookup", "arguments": object{"n": n}}, {"tool": "fetch"}, {"tool": "lookup", "arguments": object{"n": -n}}}}}
	},
	"permission": func(n int) []object {
		return []object{{"permission": object{"tool": "shell", "input": object{"command": fmt.Sprint("rm ", n%5)}, "output": "gone"}}}
	},
	"native": func(n int) []object {
		return []object{{"native": object{"tool": "edit", "input": object{"path": fmt.Sprint(n % 5)}}}}
	},
	"ask": func(int) []object {
		return []object{{"ask": object{"message": "Which one?", "schema": object{"type": "string"}}}}
	},
	"usage":    func(n int) []object { return []object{{"usage": object{"input_tokens": n, "output_tokens": 7}}} },
	"sleep_ms": func(n int) []object { return []object{{"sleep_ms": n % 300}} },
	"flood": func(n int) []object {
		return []object{{"flood": object{"deltas": 100 + n%400, "bytes": 20 + n%200, "per_second": 1000 + n%1000}}}
	},
	"retry": func(n int) []object {
		return []object{{"retry": object{"text": prose, "attempts": 1 + n%3, "wait_ms": n % 20}}, {"retry": object{"reasoning": prose, "text": "and so on"}}}
	},
	"repeat": func(n int) []object {
		return []object{{"repeat": 1 + n%3, "steps": []object{{"text": "again"}, {"tool": object{"name": "shell"}}}}}
	},
	"finish": func(n int) []object {
		return []object{{"finish": []string{"end_turn", "max_tokens", "refusal", "stop_sequence"}[n%4]}, {"text": "so much"}}
	},
	"change": func(n int) []object {
		a, b := fmt.Sprintf("a%d.txt", n), fmt.Sprintf("b%d.txt", n)
		return []object{
			{"change": object{"kind": "create", "path": a, "text": "one\ntwo\n"}},
			{"change": object{"kind": "edit", "path": a, "old": "two", "new": "three"}},
			{"change": object{"kind": "move", "path": a, "to": b}},
			{"change": object{"kind": "delete", "path": b}},
		}
	},
	"subagent": func(int) []object {
		return []object{{"subagent": object{"task": "look", "command": "ls", "output": "a b c", "text": "there are three"}}}
	},
	"background": func(n int) []object {
		return []object{{"background": object{"command": "make", "ms": 50 + n%200}}, {"text": "it works on"}, {"background": object{"done": true}}}
	},
	"compact": func(int) []object { return []object{{"compact": object{"summary": "in short"}}} },
	"output":  func(n int) []object { return []object{{"output": object{"n": n}}} },
	"full":    func(int) []object { return []object{{"full": true}} },
	"next":    func(int) []object { return []object{{"next": true}} },
	"told":    func(int) []object { return []object{{"compact": object{"summary": "s"}}, {"told": true}} },

	// These end the turn.
	"error": func(n int) []object {
		return []object{{"text": "half"}, {"error": object{"message": "overloaded", "error_type": "overloaded", "status": 529, "retry_after_s": n % 3}}}
	},
	"cut":     func(int) []object { return []object{{"cut": object{"text": prose}}} },
	"refused": func(int) []object { return []object{{"refused": true}} },
	"stall":   func(int) []object { return []object{{"text": "and now"}, {"stall": true}} },
	"empty":   func(int) []object { return []object{{"empty": true}} },
	"crash": func(n int) []object {
		return []object{{"text": "going"}, {"crash": object{"exit_code": 1 + n%100, "stderr": "gone"}}}
	},
}

// enders are the kinds that end a turn: they stand last.
var enders = map[string]bool{"error": true, "cut": true, "refused": true, "stall": true, "empty": true, "crash": true}

// kinds are all of them, in an order that is always the same.
var kinds = slices.Sorted(maps.Keys(recipes))

// script makes the n-th turn's: with the kind that is due, so that each is
// played soon, and with some of the others.
func script(rng *rand.Rand, n int) (steps []object, played []string) {
	last := ""
	for _, kind := range []string{kinds[n%len(kinds)], kinds[rng.IntN(len(kinds))], kinds[rng.IntN(len(kinds))], kinds[rng.IntN(len(kinds))]} {
		if !enders[kind] {
			steps, played = append(steps, recipes[kind](n)...), append(played, kind)
		} else if last == "" {
			last = kind
		}
	}
	if last != "" {
		steps, played = append(steps, recipes[last](n)...), append(played, last)
	}
	return steps, played
}

// The language's words are all in the recipes, also the next one.
func TestEveryKindOfStepHasARecipe(t *testing.T) {
	err := simulate.CheckScript(json.RawMessage(`[{"no such step":1}]`))
	_, list, ok := strings.Cut(fmt.Sprint(err), "the steps are: ")
	if !ok {
		t.Fatal(err)
	}
	if words := strings.Split(list, ", "); !slices.Equal(words, kinds) {
		t.Errorf("the language has %v, the recipes %v", words, kinds)
	}
	for i := range 5 * len(kinds) {
		steps, _ := script(rand.New(rand.NewPCG(1, uint64(i))), i)
		raw, err := json.Marshal(steps)
		if err == nil {
			err = simulate.CheckScript(raw)
		}
		if err != nil {
			t.Errorf("%s: %v", raw, err)
		}
	}
}
