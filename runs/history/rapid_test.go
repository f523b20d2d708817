package history_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"innerd/runs/history"
)

// world is a host and an agent. Every text is unique, so that it can be
// counted in what reaches the model.
type world struct {
	a    agent
	host []history.Message
	mem  []string // texts in the agent's memory, as its model sees them
	// unsure ones may stand twice: they were told again under a label
	unsure map[string]bool
	n      int
}

func (w *world) text(kind string) string { w.n++; return fmt.Sprintf("%s-%d.", kind, w.n) }

// TestMarkers: whatever a host does to its history, in the request that
// reaches the model each text of the history stands exactly once, and no user
// text that is not in the history stands there at all.
func TestMarkers(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{unsure: map[string]bool{}}
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
	before := slices.Clone(w.mem)
	d := w.a.begin(fmt.Sprint("run-", w.n), w.a.accept(), hist, prompt)
	if d.Mode == history.New {
		w.mem, w.unsure = nil, map[string]bool{}
	}
	for i, m := range d.Tell {
		if m.Role != "user" && m.Role != "assistant" || m.Summary {
			continue
		}
		text := strings.TrimSpace(m.Text)
		if d.MayBeKnown(i) != w.unsure[text] {
			t.Fatalf("%q: may be known %v, unsure %v", text, d.MayBeKnown(i), w.unsure[text])
		}
		w.mem = append(w.mem, text)
	}
	w.mem = append(w.mem, prompt)
	w.check(t, d, hist, prompt)

	var said []string
	for range rapid.IntRange(0, 3).Draw(t, "messages") {
		said = append(said, w.text("a"))
	}
	w.mem = append(w.mem, said...)
	stored := rapid.IntRange(0, 3).Draw(t, "stored") > 0
	w.a.end(fmt.Sprint("run-", w.n-len(said)), stored, said...)
	w.settle(t, before, d.Mode, stored)
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

// settle makes what this turn added sure or unsure, and loses an unsure turn
// now and then.
func (w *world) settle(t *rapid.T, before []string, mode history.Mode, stored bool) {
	added := w.mem
	if mode != history.New {
		added = w.mem[len(before):]
	}
	for _, text := range added {
		w.unsure[text] = !stored
	}
	joined := strings.Join(added, " ")
	_ = joined
	if !stored && mode != history.New && rapid.Bool().Draw(t, "lost") {
		w.mem = before
	}
}

// check looks at what the model sees.
func (w *world) check(t *rapid.T, d history.Decision, hist []history.Message, prompt string) {
	seen := strings.Join(w.mem, " ")
	for i, m := range hist {
		if m.Role == "tool" || m.Summary || m.Text == "" {
			continue
		}
		if slices.ContainsFunc(hist[i:], func(m history.Message) bool { return m.Summary }) {
			continue
		}
		for text := range strings.FieldsSeq(m.Text) { // joined messages are several
			if n := strings.Count(seen, text); n != 1 && !(n > 1 && w.again(d, text)) {
				t.Fatalf("%q stands %d times after %s (%s)", text, n, told(d), d.Reason)
			}
		}
	}
	known := prompt
	summarised := slices.ContainsFunc(hist, func(m history.Message) bool { return m.Summary })
	for _, m := range hist {
		known += " " + m.Text
	}
	for _, text := range w.mem {
		if strings.HasPrefix(text, "u-") && !strings.Contains(known, text) && !summarised {
			t.Fatalf("%q is not in the history, but in the agent's memory after %s", text, told(d))
		}
	}
}

// again: the text was told under the label.
func (w *world) again(d history.Decision, text string) bool {
	for i, m := range d.Tell {
		if d.MayBeKnown(i) && strings.Contains(m.Text, text) {
			return true
		}
	}
	return w.labelled(text)
}

// labelled: it stands more than once since an earlier turn told it again.
func (w *world) labelled(text string) bool { _, ok := w.unsure[text]; return ok }
