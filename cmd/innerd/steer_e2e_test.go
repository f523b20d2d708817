//go:build linux || darwin

package main

import (
	"strings"
	"testing"
	"time"
)

// TestSteerAndCompact: a running turn is told more, once it runs and not
// afterwards; an idle conversation's agent shortens its memory.
func TestSteerAndCompact(t *testing.T) {
	h := newHome(t)
	s := h.serve("--auth=off")
	cmd := h.command(t.Context(), "run", "--server", s.url, "-b", "simulate", "-C", "review", "--json", "--script",
		`[{"text":"begin"},{"sleep_ms":3000},{"text":"end"}]`, "go")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	l := readLines(out)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	first, ok := l.line(0, time.After(time.Minute))
	_, id, found := strings.Cut(first, `"task_id":"`)
	id, _, _ = strings.Cut(id, `"`)
	if !ok || !found {
		t.Fatalf("the run did not begin: %q", first)
	}
	s.run("steer", id, "a word more").want(t, 0, "has taken it")
	s.run("compact", "review").want(t, 1, "a run is on")
	l.wait()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if text := l.text(); strings.Count(text, `"session.steered"`) != 1 || !strings.Contains(text, "a word more") {
		t.Errorf("the run: %s", text)
	}
	s.run("steer", id, "late").want(t, 1, "has ended")
	s.run("steer", "no-such-task", "x").want(t, 2, "no such run")
	s.run("compact", "review").want(t, 0, "shortened")
	s.run("compact", "another").want(t, 2, "no conversation")
}
