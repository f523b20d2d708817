package runs_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"innerd/events"
	"innerd/runs"
)

func written(n int) string {
	raw, _ := json.Marshal(map[string]any{"id": "c1", "context_id": "c", "writes": n})
	return string(raw)
}

// TestTheNewerFileCounts: what was written ahead counts until the end of the
// turn is, and never where it is no whole.
func TestTheNewerFileCounts(t *testing.T) {
	half := func(s string) string { return s[:len(s)/2] }
	used := func(s string, at time.Time) string {
		return strings.Replace(s, "{", fmt.Sprintf(`{"last_used":%q,`, at.Format(time.RFC3339)), 1)
	}
	now := time.Now()
	for name, files := range map[string]struct {
		state, ahead string
		writes       int64
		err          error
	}{
		"state alone":               {state: written(2), writes: 2},
		"of a build without ahead":  {state: `{"id":"c1","context_id":"c"}`},
		"ahead is newer":            {state: written(2), ahead: runs.Sealed(written(3)), writes: 3},
		"ahead is of an older turn": {state: written(4), ahead: runs.Sealed(written(3)), writes: 4},
		"ahead is half":             {state: written(2), ahead: half(runs.Sealed(written(3))), writes: 2},
		"over a longer one":         {state: written(2), ahead: runs.Sealed(written(3)) + "}", writes: 2},
		"a mixture of two":          {state: written(2), ahead: strings.Replace(runs.Sealed(written(3)), ":3", ":9", 1), writes: 2},
		"of another conversation":   {state: written(2), ahead: runs.Sealed(`{"id":"c2","context_id":"c","writes":9}`), writes: 2},
		"before the first end":      {ahead: runs.Sealed(written(1)), writes: 1},
		"nothing":                   {err: fs.ErrNotExist},
		"half, and nothing else":    {ahead: half(runs.Sealed(written(1))), err: fs.ErrNotExist},
		"an earlier build went on": {
			state: used(`{"id":"c1","context_id":"c"}`, now.Add(time.Hour)), ahead: runs.Sealed(used(written(3), now)),
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for file, data := range map[string]string{"state.json": files.state, "ahead": files.ahead} {
				if data == "" {
					continue
				}
				if err := w.store.WriteFile("conversations/c1/"+file, []byte(data)); err != nil {
					t.Fatal(err)
				}
			}
			writes, err := runs.NewerOf(w.store, "c1")
			if writes != files.writes || !errors.Is(err, files.err) {
				t.Errorf("the one written %d times, %v; want %d, %v", writes, err, files.writes, files.err)
			}
		})
	}
}

// TestAheadOnlyWhileToldSomething: in a turn the file ahead is the newer one,
// after it the other.
func TestAheadOnlyWhileToldSomething(t *testing.T) {
	w := newWorld(t)
	read := func(file string) (writes int64) {
		t.Helper()
		id := w.m.Conversations("me")[0].ID
		raw, err := w.store.ReadFile("conversations/" + id + "/" + file)
		if err != nil {
			t.Fatal(err)
		}
		var st struct{ Writes int64 }
		if err := json.Unmarshal(raw[bytes.IndexByte(raw, '{'):], &st); err != nil {
			t.Fatal(err)
		}
		return st.Writes
	}
	w.run(inContext("c"), said("one"), script(`[{"text":"1"}]`))
	if a, s := read("ahead"), read("state.json"); a >= s {
		t.Errorf("after a turn: ahead %d, state %d", a, s)
	}
	run := w.begin(inContext("c"), func(s *runs.Spec) { s.Settings.Interactive = true }, said("one", "1", "two"), script(`[{"text":"2"},{"ask":{"message":"go on?","schema":{"type":"string"}}}]`))
	until[events.InputRequired](t, run)
	if a, s := read("ahead"), read("state.json"); a <= s {
		t.Errorf("in a turn: ahead %d, state %d", a, s)
	}
}
