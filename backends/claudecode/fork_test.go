package claudecode_test

import (
	"os/exec"
	"strings"
	"sync"
	"testing"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/events"
	"innerd/test/modelstub"
)

// notices are what a run was told beside the answer.
func notices(evs []events.Event) string {
	var out []string
	for _, e := range evs {
		if s, ok := e.Data.(events.Status); ok && s.State == events.StateNotice {
			out = append(out, s.Detail)
		}
	}
	return strings.Join(out, "\n")
}

// TestFork: a session that another process has open, or has gone on with, is
// not written into any more; the conversation goes on in a copy.
func TestFork(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var mu sync.Mutex
	var saved []string
	conv, s := b.open(t, backends.Config{Save: func(x backends.Session) error {
		mu.Lock()
		defer mu.Unlock()
		saved = append(saved, x.ID)
		return nil
	}})
	s.answering(func(modelstub.Request) modelstub.Turn { return text("fine") })
	turn := func(c backends.Conversation, prompt string) []events.Event {
		t.Helper()
		evs, _, err := run(t, c, backendtest.Turn{Prompt: prompt}, backends.Settings{})
		if err != nil {
			t.Fatal(err)
		}
		return evs
	}
	turn(conv, "FIRST-MARK")
	for range 3 { // nobody else is there
		if n := notices(turn(conv, "again")); n != "" {
			t.Fatal(n)
		}
	}
	first := saved[0]

	// Another conversation takes the session, while the first has it open.
	other, o := b.open(t, backends.Config{Session: backends.Session{ID: first}})
	o.answering(func(modelstub.Request) modelstub.Turn { return text("fine") })
	if n := notices(turn(other, "OTHER-MARK")); !strings.Contains(n, "forked") || !strings.Contains(n, "open") {
		t.Errorf("told %q", n)
	}
	if !strings.Contains(o.Heard(), "FIRST-MARK") {
		t.Error("the copy does not know what came before")
	}
	if n := notices(turn(conv, "again")); n != "" || strings.Contains(s.Heard(), "OTHER-MARK") {
		t.Errorf("the first one is bothered: %s", n)
	}

	// Somebody goes on with it and ends.
	cmd := exec.Command(b.claude, "-p", "--resume", first, "--setting-sources", "", "--strict-mcp-config", "--", "FOREIGN-MARK")
	cmd.Dir = s.dir
	cmd.Env = []string{
		"PATH=/usr/bin:/bin", "HOME=" + t.TempDir(), "CLAUDE_CONFIG_DIR=" + b.home + "/claude", "ANTHROPIC_BASE_URL=" + s.sc.BaseURL(),
		"ANTHROPIC_API_KEY=" + s.sc.Key(), "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1",
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if n := notices(turn(conv, "SECOND-MARK")); !strings.Contains(n, "gone on with it") {
		t.Errorf("told %q", n)
	}
	if len(saved) != 2 || saved[1] == first {
		t.Errorf("saved %q", saved)
	}
	heard := s.Heard()
	for _, mark := range []string{"FIRST-MARK", "FOREIGN-MARK", "SECOND-MARK"} {
		if strings.Count(heard, mark) != 1 {
			t.Errorf("%s was heard %d times", mark, strings.Count(heard, mark))
		}
	}
	if n := notices(turn(conv, "again")); n != "" {
		t.Error(n)
	}
}
