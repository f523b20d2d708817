package copilot_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/backends/copilot"
	"innerd/events"
	"innerd/test/modelstub"
)

// leave makes files, with their folders.
func leave(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// detachedFiles makes those of a command that was detached, and gives its log.
func detachedFiles(t *testing.T, dir, name string) string {
	t.Helper()
	base := filepath.Join(dir, "copilot-detached-"+name)
	leave(t, base+".log", base+".pid", base+".exit")
	return base + ".log"
}

// detaching is a turn in which a command is detached; what copilot then says of
// its tasks, when the call ends and when the turn does.
func detaching(called, ended string) []act {
	return acts(send("i1"), []act{
		event(`{"type":"tool.execution_start","data":{"toolCallId":"c","toolName":"bash","arguments":{"command":"serve","detach":true}}}`),
		event(`{"type":"tool.execution_complete","data":{"toolCallId":"c","success":true,"result":{"content":"started"}}}`),
		{Expect: `"method":"session.tasks.list"`},
		{Answer: called},
		say("it runs"),
	}, stop, []act{{Expect: `"method":"session.tasks.list"`}, {Answer: ended}})
}

func tasks(status, log string) string {
	return `{"tasks":[{"type":"shell","id":"x","status":"` + status + `","description":"a server","attachmentMode":"detached","logPath":"` + log + `"}]}`
}

// TestDetached: a command that was told to outlive its session ends with the
// turn, which is told; the files that it has left go with it.
func TestDetached(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	list := tasks("running", detachedFiles(t, dir, "x"))
	f := newFake(t, detaching(list, list)...)
	rec, _, err := run(t, t.Context(), f.open(t, nil), backendtest.Turn{}, backends.Settings{})
	left, _ := filepath.Glob(dir + "/*")
	if err != nil || len(left) > 0 || f.sent(t, `"method":"session.tasks.cancel"`) != 1 || !noticed(rec, "background work is ended with the turn: a server") {
		t.Errorf("%v, %q\n%s", err, left, backendtest.Dump(rec.Events()))
	}
}

// TestDetachedIsLeft: what a run leaves to its conversation ends with that.
func TestDetachedIsLeft(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	list := tasks("running", detachedFiles(t, dir, "x"))
	f := newFake(t, detaching(list, list)...)
	c := f.open(t, nil)
	if _, _, err := run(t, t.Context(), c, backendtest.Turn{}, backends.Settings{Background: backends.BackgroundWait}); err != nil {
		t.Fatal(err)
	}
	if n := f.sent(t, `"method":"session.tasks.cancel"`); n != 0 {
		t.Errorf("ended with the run: %d", n)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(dir + "/*"); len(left) > 0 || f.sent(t, `"method":"session.tasks.cancel"`) != 1 {
		t.Errorf("%q, %q", left, f.heard(t))
	}
}

// TestDetachedEnds: the files of a command that has ended by itself go with its
// conversation, also where copilot died before it said so; no others do.
func TestDetachedEnds(t *testing.T) {
	t.Parallel()
	for _, dies := range []bool{false, true} {
		t.Run(fmt.Sprint("dies ", dies), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			other := detachedFiles(t, dir, "other")
			log := detachedFiles(t, dir, "x")
			script := detaching(tasks("running", log), tasks("completed", log))
			if dies {
				script = append(script[:8], act{Exit: exit(3)})
			}
			f := newFake(t, script...)
			c := f.open(t, nil)
			if _, _, err := run(t, t.Context(), c, backendtest.Turn{}, backends.Settings{}); (err != nil) != dies {
				t.Fatal(err)
			}
			outputs := filepath.Join(f.home, "copilot", "outputs")
			leave(t, filepath.Join(outputs, f.saved[0].ID, "long.txt"), filepath.Join(outputs, "other", "long.txt"))
			if err := c.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if left, _ := filepath.Glob(dir + "/*"); len(left) != 3 || !slices.Contains(left, other) {
				t.Errorf("%q", left)
			}
			left, _ := filepath.Glob(outputs + "/*")
			if notes, _ := filepath.Glob(filepath.Join(f.home, "copilot", "detached", "*")); len(notes) > 0 || len(left) != 1 || filepath.Base(left[0]) != "other" {
				t.Errorf("%q, %q", notes, left)
			}
		})
	}
}

// TestReopened: what a conversation has left stays while another one, which goes
// on with its session, is open.
func TestReopened(t *testing.T) {
	t.Parallel()
	f := newFake(t, acts(send("i1"), []act{say("one")}, stop, send("i2"), []act{say("two")}, stop)...)
	f.keepSession(t, "s1")
	long := filepath.Join(f.home, "copilot", "outputs", "s1", "long.txt")
	leave(t, long)
	old, next := f.open(t, func(cfg *backends.Config) { cfg.Session.ID = "s1" }), f.open(t, func(cfg *backends.Config) { cfg.Session.ID = "s1" })
	for _, c := range []backends.Conversation{old, next} {
		if _, _, err := run(t, t.Context(), c, backendtest.Turn{}, backends.Settings{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []backends.Conversation{old, next} {
		if !exists(long) {
			t.Error("it is gone while the session is open")
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if exists(long) {
		t.Error("it is left")
	}
}

// TestKilledServer: what the conversations of a server have left that was killed
// is removed by the next one, but nothing of a session that is open, here or in
// another copilot, and nothing that only a note says is copilot's.
func TestKilledServer(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	outside := filepath.Join(temp, "mine.log")
	leave(t, outside)
	f := newFake(t, detaching(tasks("running", detachedFiles(t, temp, "open")), `{"tasks":[]}`)...)
	home := filepath.Join(f.home, "copilot")
	for _, session := range []string{"dead", "open", "elsewhere"} {
		f.keepSession(t, session)
		leave(t, filepath.Join(home, "outputs", session, "long.txt"))
		log := filepath.Join(temp, "copilot-detached-"+session+".log")
		if session != "open" {
			detachedFiles(t, temp, session)
		}
		note, _ := json.Marshal([]string{log, outside, "../../etc/copilot-detached-x.log"})
		leave(t, filepath.Join(home, "detached", session))
		if err := os.WriteFile(filepath.Join(home, "detached", session), note, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	leave(t, filepath.Join(home, "session-state", "dead", "inuse.999999999.lock"),
		filepath.Join(home, "session-state", "elsewhere", fmt.Sprintf("inuse.%d.lock", os.Getpid())))
	c := f.open(t, func(cfg *backends.Config) { cfg.Session.ID = "open" })
	if _, _, err := run(t, t.Context(), c, backendtest.Turn{}, backends.Settings{Background: backends.BackgroundWait}); err != nil {
		t.Fatal(err)
	}
	if err := f.ForgetOld(time.Now().Add(-time.Hour), func(string) bool { return false }); err != nil {
		t.Error(err)
	}
	var left []string
	for _, pattern := range []string{temp + "/*.log", home + "/outputs/*", home + "/detached/*"} {
		files, _ := filepath.Glob(pattern)
		for _, name := range files {
			left = append(left, filepath.Base(filepath.Dir(name))+"/"+filepath.Base(name))
		}
	}
	base := filepath.Base(temp)
	want := []string{
		base + "/copilot-detached-elsewhere.log", base + "/copilot-detached-open.log", base + "/mine.log",
		"outputs/elsewhere", "outputs/open", "detached/elsewhere", "detached/open",
	}
	if !slices.Equal(left, want) {
		t.Errorf("%q\nwant\n%q", left, want)
	}
	if err := newFake(t).ForgetOld(time.Now(), func(string) bool { return false }); err != nil {
		t.Errorf("where there is nothing: %v", err)
	}
}

// realDetached: a command that the real CLI detaches ends with its run, or with
// the conversation where that was wanted, and leaves no file in the system's
// folder; nor does one that has ended by itself.
func realDetached(t *testing.T, b *bench, backend *copilot.Backend) {
	allow := backendtest.Reply{Kind: events.KindPermission, Many: true, Answer: events.Answer{Outcome: events.OutcomeAllowed}}
	for background, command := range map[string]string{backends.BackgroundEnd: "sleep 421", backends.BackgroundWait: "sleep 422"} {
		t.Run(background, func(t *testing.T) {
			s := b.seat(t)
			for _, line := range []string{"echo $$; exec " + command, "echo $$; true"} {
				s.sc.Add(modelstub.Say(modelstub.Tool("bash", map[string]any{"command": line, "description": line, "mode": "async", "detach": true})))
			}
			s.sc.Add(modelstub.Say(modelstub.Text("They run.")), modelstub.Say(modelstub.Text("One has ended.")))
			before, _ := filepath.Glob(filepath.Join(os.TempDir(), "copilot-detached-*"))
			c := openSeat(t, backend, s, nil)
			rec, _, err := run(t, t.Context(), c, backendtest.Turn{Host: backendtest.Host{Replies: []backendtest.Reply{allow}}}, backends.Settings{Background: background})
			ends := background == backends.BackgroundEnd
			if err != nil || noticed(rec, "background work is ended with the turn: echo $$; exec "+command) != ends {
				t.Errorf("%v\n%s", err, backendtest.Dump(rec.Events()))
			}
			if ends {
				c.(backends.Sweeper).Sweep(t.Context()) // as the run's end does
			}
			if alive(command) == ends {
				t.Errorf("after the run it lives: %v", !ends)
			}
			if err := c.Close(t.Context()); err != nil {
				t.Error(err)
			}
			left, _ := filepath.Glob(filepath.Join(os.TempDir(), "copilot-detached-*"))
			left = slices.DeleteFunc(left, func(name string) bool { return slices.Contains(before, name) })
			if alive(command) || len(left) > 0 {
				t.Errorf("after the conversation it lives: %v; left: %q", alive(command), strings.Join(left, " "))
			}
		})
	}
}
