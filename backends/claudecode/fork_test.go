package claudecode_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/backends/claudecode"
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
	// The copy twice: with its source before it is made, and without when it is.
	if len(saved) != 3 || saved[1] == first || saved[2] != saved[1] {
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

// TestForkThatFails: of which session a copy was to be made is stored with the
// copy's id, so that who opens it after a start that failed goes on in one.
func TestForkThatFails(t *testing.T) {
	t.Parallel()
	const session = "62345678-1234-4234-8234-123456789abc"
	f := openFake(t, true, session, act{Stderr: "libc is missing"}, act{Exit: exit(1)})
	dir := filepath.Join(f.home, "claude", "sessions")
	holder, err := json.Marshal(map[string]any{"pid": os.Getpid(), "sessionId": session, "procStart": claudecode.StartOf(os.Getpid())})
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "1.json"), holder, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := run(t, f, backendtest.Turn{}, backends.Settings{}); class(err) != events.ErrBackendUnavailable {
		t.Fatal(err)
	}
	last := f.saved[len(f.saved)-1]
	if last.ID == session {
		t.Fatal("it is no copy")
	}
	f.write(t, append(slices.Clone(ready), act{Expect: userLine}, say("on"), act{Print: okResult},
		act{Expect: userLine}, say("further"), act{Print: okResult}, act{Drain: true}))
	again, err := f.backend.Open(t.Context(), f.config(t, last))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = again.Close(context.Background()) })
	evs, _, err := run(t, &faked{Conversation: again}, backendtest.Turn{}, backends.Settings{})
	if err != nil || !strings.Contains(notices(evs), "forked") {
		t.Errorf("%v, told %q", err, notices(evs))
	}
	args := fmt.Sprint(f.launches(t)[1].Args)
	if !strings.Contains(args, "--resume "+session) || !strings.Contains(args, "--fork-session") || !strings.Contains(args, "--session-id "+last.ID) {
		t.Errorf("it was started with %s", args)
	}
	keepSession(t, f.home, last.ID) // claude has made it
	if _, _, err := run(t, &faked{Conversation: again}, backendtest.Turn{}, backends.Settings{}); err != nil {
		t.Fatal(err)
	}
	made := f.saved[len(f.saved)-1]
	if made.ID != last.ID || made.State != nil {
		t.Errorf("stored of the copy, once it is made: %+v", made)
	}
	gone := backends.Session{ID: "72345678-1234-4234-8234-123456789abc"}
	if _, err := f.backend.Open(t.Context(), f.config(t, gone)); !errors.Is(err, backends.ErrNoSession) {
		t.Error(err)
	}
}
