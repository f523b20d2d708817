package runs_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"innerd/runs"
)

// TestColdConversationsAreOnDisk: of conversations that are not used there is
// little in memory, and they go on as if they had been.
func TestColdConversationsAreOnDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := playing(t, &played{name: "played", run: says("answer")}, func(w *world) { w.lim.Warm = 3 })
		for i := range 20 {
			w.run(by("played"), inContext(fmt.Sprint("c", i)), said("hello"))
		}
		synctest.Wait()
		if n := w.m.Loaded(); n > 3 {
			t.Errorf("%d records are in memory", n)
		}
		for _, i := range []int{0, 7, 19} {
			run := w.begin(by("played"), inContext(fmt.Sprint("c", i)), said("hello", "answer", "more"))
			if got := mode(run); got != "continue: the agent knows all of the history" {
				t.Errorf("conversation %d: %s", i, got)
			}
			w.await(run)
		}
		w.restart()
		if n := w.m.Loaded(); n != 0 || len(w.m.Conversations("me")) != 20 {
			t.Errorf("after a restart %d records of %d are in memory", n, len(w.m.Conversations("me")))
		}
	})
}

// TestConversationsAreBounded: those used longest ago go, also from the disk;
// one with a run stays.
func TestConversationsAreBounded(t *testing.T) {
	w := newWorld(t, func(w *world) { w.lim = w.lim.WithConversations(150) })
	oldest := w.begin(inContext("busy"), script(`[{"stall":true}]`))
	for i := range 200 {
		w.run(inContext(fmt.Sprint("c", i)), func(s *runs.Spec) {})
	}
	list := w.m.Conversations("me")
	if len(list) > 150 || list[0].ContextID != "c199" {
		t.Errorf("%d are left, the newest is %s", len(list), list[0].ContextID)
	}
	w.conversation("busy")
	_, _ = oldest.Cancel(t.Context(), "")
	w.await(oldest)
	w.restart()
	if again := w.m.Conversations("me"); len(again) != len(list) {
		t.Errorf("after a restart there are %d of %d", len(again), len(list))
	}
}
