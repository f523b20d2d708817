package history_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"innerd/runs/history"
)

// world is a host and an agent. Every text is one word that is nowhere else,
// so that it can be counted in what reaches the model.
type world struct {
	a    agent
	host []history.Message
	mem  []string // words in the agent's memory, as its model sees them

	unsure  map[string]bool // words of turns that may be lost
	labeled map[string]bool // words that were told as "may be known"
	n       int
}

func (w *world) text(kind string) string { w.n++; return fmt.Sprintf("%s-%d.", kind, w.n) }

// TestMarkers: whatever a host does to its history, in the request that
// reaches the model each text of the history stands exactly once, and no user
// text that is not in the history stands there at all.
func TestMarkers(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{unsure: map[string]bool{}, labeled: map[string]bool{}}
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			switch rapid.SampledFrom([]string{"turn", "turn", "turn", "native", "edit", "summarise", "reword", "spaces"}).Draw(rt, "step") {
			case "turn":
				w.turn(rt)
			case "native": // the host's own loop answered
				w.host = append(w.host, user(w.text("u")), history.Message{Role: "tool", Text: "result"}, assistant(w.text("a")))
			case "edit": // the last turns are taken back
				w.host = w.host[:rapid.IntRange(0, len(w.host)).Draw(rt, "keep")]
			case "summarise":
				n := rapid.IntRange(0, len(w.host)).Draw(rt, "summarised")
				if n > 0 {
					w.host = append([]history.Message{summary("s")}, w.host[n:]...)
				}
			case "reword":
				for i := range w.host {
					if w.host[i].Role == "assistant" && !w.host[i].Summary && rapid.Bool().Draw(rt, "this one") {
						w.host[i].Text = w.text("reworded")
						break
					}
				}
			case "spaces":
				for i := range w.host {
					w.host[i].Text = " " + strings.ReplaceAll(strings.TrimSpace(w.host[i].Text), " ", "\n") + " "
				}
			}
		}
	})
}

func (w *world) turn(t *rapid.T) {
	hist := slices.Clone(w.host)
	prompt := w.text("u")
	run := fmt.Sprint("run-", w.n)
	d := w.a.begin(run, w.a.accept(), hist, prompt)
	if d.Mode == history.New {
		w.mem, w.unsure, w.labeled = nil, map[string]bool{}, map[string]bool{}
	}
	before := slices.Clone(w.mem)
	for i, m := range d.Tell {
		if m.Role == "tool" || m.Summary {
			continue
		}
		for word := range strings.FieldsSeq(m.Text) {
			if d.MayBeKnown(i) {
				w.labeled[word] = true
				if !w.unsure[word] {
					t.Fatalf("%q is told as may be known, but is sure", word)
				}
			}
			w.mem = append(w.mem, word)
		}
	}
	w.mem = append(w.mem, prompt)
	w.check(t, d, hist, prompt)

	var said []string
	for range rapid.IntRange(0, 3).Draw(t, "messages") {
		said = append(said, w.text("a"))
	}
	w.mem = append(w.mem, said...)
	stored := rapid.IntRange(0, 3).Draw(t, "stored") > 0
	w.a.end(run, stored, said...)
	for _, word := range w.mem[len(before):] {
		w.unsure[word] = !stored
	}
	if !stored && rapid.Bool().Draw(t, "lost") {
		w.mem = before
	}
	w.host = append(w.host, user(prompt))
	if len(said) > 0 {
		switch rapid.SampledFrom([]string{"last", "all", "joined"}).Draw(t, "kept") {
		case "last":
			w.host = append(w.host, assistant(said[len(said)-1]))
		case "all":
			for _, s := range said {
				w.host = append(w.host, assistant(s))
			}
		case "joined":
			w.host = append(w.host, assistant(strings.Join(said, "\n\n")))
		}
	}
}

// check looks at what the model sees.
func (w *world) check(t *rapid.T, d history.Decision, hist []history.Message, prompt string) {
	counts, known := map[string]int{}, map[string]bool{prompt: true}
	for _, word := range w.mem {
		counts[word]++
	}
	first := 0 // after the last summary
	for i, m := range hist {
		if m.Summary {
			first = i + 1
		}
	}
	for _, m := range hist[first:] {
		if m.Role == "tool" {
			continue
		}
		for word := range strings.FieldsSeq(m.Text) {
			known[word] = true
			if n := counts[word]; n != 1 && (n == 0 || !w.labeled[word]) {
				t.Fatalf("%q stands %d times after %s (%s)", word, n, told(d), d.Reason)
			}
		}
	}
	for _, word := range w.mem {
		if strings.HasPrefix(word, "u-") && !known[word] && first == 0 {
			t.Fatalf("%q is not in the history, but in the agent's memory after %s", word, told(d))
		}
	}
}
