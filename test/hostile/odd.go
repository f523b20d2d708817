//go:build linux

package hostile

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// oddMessages writes n messages of recorded transcripts in any order, each with
// a few of its values in the place of others: what no CLI ever said, in its
// own words. They are of this turn, most of them.
func (a *agent) oddMessages(t *turn, dir string, n int, seed uint64) {
	all := recorded(dir)
	r := rand.New(rand.NewPCG(seed, 0))
	for range n {
		var v any
		raw := all[r.IntN(len(all))]
		if json.Unmarshal(raw, &v) != nil || ends.Match(raw) && r.IntN(200) > 0 {
			continue
		}
		m := &mutator{r: r, t: t}
		if r.IntN(10) > 0 {
			v = m.ours(v)
		}
		for range r.IntN(4) {
			v = m.change(v)
		}
		if b, err := json.Marshal(v); err == nil {
			a.raw(a.frame(b))
		}
	}
}

// ends are the messages that a turn is over with, or nearly.
var ends = regexp.MustCompile(`"type":"(result|assistant\.idle|session\.idle|session\.error|abort)"|"turn/completed"`)

// recorded are the messages that the CLI printed in the transcripts of a folder.
func recorded(dir string) (all []json.RawMessage) {
	files, _ := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	slices.Sort(files)
	for _, path := range files {
		raw, _ := os.ReadFile(path) // none: the orders are wrong, which is seen
		for line := range bytes.Lines(raw) {
			var e struct {
				Dir  string
				Line json.RawMessage
				Msg  json.RawMessage
			}
			if json.Unmarshal(line, &e) != nil || e.Dir != "out" || len(line) > 16<<10 {
				continue
			}
			if e.Line == nil {
				e.Line = e.Msg
			}
			all = append(all, e.Line)
		}
	}
	return all
}

type mutator struct {
	r *rand.Rand
	t *turn
}

// ours makes a message one of this turn.
func (m *mutator) ours(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, inner := range v {
			switch k {
			case "threadId", "sessionId":
				v[k] = m.t.session
			case "turnId":
				v[k] = m.t.id
			case "user_message_uuids":
				v[k] = []any{m.t.id}
			default:
				v[k] = m.ours(inner)
			}
		}
		if turn, ok := v["turn"].(map[string]any); ok {
			turn["id"] = m.t.id
		}
		return v
	case []any:
		for i := range v {
			v[i] = m.ours(v[i])
		}
	}
	return v
}

// change puts something odd into the place of one value, anywhere.
func (m *mutator) change(v any) any {
	switch inner := v.(type) {
	case map[string]any:
		if len(inner) == 0 || m.r.IntN(12) == 0 {
			break
		}
		keys := make([]string, 0, len(inner))
		for k := range inner {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		k := keys[m.r.IntN(len(keys))]
		if m.r.IntN(8) == 0 {
			delete(inner, k)
			return inner
		}
		inner[k] = m.change(inner[k])
		return inner
	case []any:
		if len(inner) == 0 || m.r.IntN(6) == 0 {
			break
		}
		i := m.r.IntN(len(inner))
		inner[i] = m.change(inner[i])
		return inner
	}
	return odd[m.r.IntN(len(odd))]
}

// odd stands in the place of anything.
var odd = []any{
	nil, true, false, 0, 1, -1, 3.5, 1e300, -9007199254740993, "", "x", "\x00", "\u20ac\U0001f600", strings.Repeat("long ", 2000),
	[]any{},
	[]any{nil},
	[]any{1, "two", nil},
	map[string]any{},
	map[string]any{"type": nil},
	map[string]any{"x": []any{}},
	nested(200), "completed", "text", "{}", "null",
}

// nested is a list in a list and so on.
func nested(depth int) any {
	var v any = "deep"
	for range depth {
		v = []any{v}
	}
	return v
}
