package runs_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"innerd/runs"
	"innerd/runs/history"
)

// TestAListIsBounded: a page of runs with large messages, histories and logs is
// small, and each run can still be told from the others.
func TestAListIsBounded(t *testing.T) {
	w := newWorld(t)
	big := strings.Repeat("é", 1<<20)
	for i := range 5 {
		w.run(func(s *runs.Spec) {
			s.Messages = []history.Message{
				{Role: "user", Text: big},
				{Role: "assistant", Text: big},
				{Role: "user", Text: fmt.Sprint("prompt ", i, big)},
			}
			s.Settings.Options = json.RawMessage(`{"script":[{"text":"first"},{"tool":{"name":"x"}},{"text":"answer ` + fmt.Sprint(i) + ` ` + strings.Repeat("z", 100_000) + `"}]}`)
		})
	}
	small := w.run(func(s *runs.Spec) { s.Settings.Options = json.RawMessage(`{"script":[{"text":"ok"}]}`) })
	list, _, err := w.m.List("me", runs.Query{})
	if err != nil || len(list) != 6 {
		t.Fatalf("%d tasks, %v", len(list), err)
	}
	raw, err := json.Marshal(list)
	if err != nil || len(raw) > 60_000 {
		t.Errorf("a page of %d bytes, %v", len(raw), err)
	}
	if got := list[0]; got.ID != small.ID || got.Truncated || answer(got) != "ok" || got.History[0].Content != "hello there" {
		t.Errorf("a small one: %+v", got)
	}
	for i, got := range list[1:] {
		n := 4 - i
		if !got.Truncated || got.State != "completed" || got.Usage == nil || len(got.Messages) != 1 || len(got.History) != 1 ||
			!strings.HasPrefix(answer(got), fmt.Sprint("answer ", n)) || !strings.HasPrefix(got.History[0].Content, fmt.Sprint("prompt ", n)) {
			t.Errorf("%d: %.300s", n, fmt.Sprintf("%+v", got))
		}
	}
	whole, err := w.m.Get("me", list[1].ID)
	if err != nil {
		t.Fatal(err)
	}
	if task, err := whole.Task(); err != nil || task.Truncated || len(task.History) != 3 || len(answer(task)) < 100_000 {
		t.Errorf("the whole: %d, %v", len(answer(task)), err)
	}
	w.restart()
	again, _, _ := w.m.List("me", runs.Query{})
	if len(again) != 6 || again[1].History[0].Content != list[1].History[0].Content {
		t.Error("after a restart the list is another")
	}
}
