package copilot_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/backends/copilot"
	"innerd/events"
	"innerd/test/copilotscript"
	"innerd/test/modelstub"
)

// realModes: in every mode of permissions copilot asks us about its own tools,
// for what it holds to be safe too; what the host says is what happens.
func realModes(t *testing.T, b *bench, backend *copilot.Backend) {
	s, dir := b.seat(t), t.TempDir()
	c := openSeat(t, backend, s, func(cfg *backends.Config) { cfg.Dir = dir })
	for _, mode := range []string{backends.PermissionAuto, backends.PermissionAsk, backends.PermissionDeny} {
		outcome := events.OutcomeAllowed // as the host answers by itself in auto
		if mode == backends.PermissionDeny {
			outcome = events.OutcomeDenied
		}
		for _, command := range []string{"ls", "touch " + mode} {
			s.sc.Add(modelstub.Say(modelstub.Tool("bash", map[string]any{"command": command, "description": "d"})))
		}
		s.sc.Add(modelstub.Say(modelstub.Text("Over.")))
		reply := backendtest.Reply{Kind: events.KindPermission, Many: true, Answer: events.Answer{Outcome: outcome}}
		rec, _, err := run(t, t.Context(), c, backendtest.Turn{Host: backendtest.Host{Replies: []backendtest.Reply{reply}}}, backends.Settings{Permission: mode})
		if err != nil {
			t.Fatal(err)
		}
		var asked []string
		for _, e := range rec.Events() {
			if d, ok := e.Data.(events.PermissionRequest); ok {
				var in struct{ Command string }
				if err := json.Unmarshal(d.Input, &in); err != nil {
					t.Error(err)
				}
				asked = append(asked, d.Tool+" "+in.Command)
			}
		}
		if !slices.Equal(asked, []string{"bash ls", "bash touch " + mode}) {
			t.Errorf("%s: asked %q", mode, asked)
		}
		if _, err := os.Stat(filepath.Join(dir, mode)); (err == nil) != (outcome == events.OutcomeAllowed) {
			t.Errorf("%s: the command ran: %v", mode, err == nil)
		}
	}
}

// realAttachments: the model is told of every file where it finds it, and no
// name leads out of the folder that they are kept in.
func realAttachments(t *testing.T, b *bench, backend *copilot.Backend) {
	s := b.seat(t)
	s.sc.Add(modelstub.Say(modelstub.Text("seen")))
	parts, file := backendtest.Attachments(t)
	const id = "01TESTATTACHMENTSATTACHMEN"
	c := openSeat(t, backend, s, func(cfg *backends.Config) { cfg.ID = id })
	rec := backendtest.NewRecorder(backendtest.Turn{}, nil, nil)
	defer rec.Close()
	_, err := c.Run(t.Context(), backends.Input{Parts: parts}, rec)
	if err != nil {
		t.Fatal(err)
	}
	kept, _ := filepath.Glob(filepath.Join(b.home, "copilot", "attachments", id, "*"))
	slices.SortFunc(kept, func(a, b string) int { return strings.Compare(filepath.Ext(a), filepath.Ext(b)) })
	if len(kept) != 2 || !strings.HasSuffix(kept[0], "evil.bin") || !strings.HasSuffix(kept[1], "x.svg") {
		t.Fatalf("kept: %q", kept)
	}
	r, _ := s.last()
	heard := copilotscript.Heard(r)
	for _, want := range append(kept, "the notes say so", file) {
		if !strings.Contains(heard, want) {
			t.Errorf("the model was not told %q", want)
		}
	}
	if raw, err := os.ReadFile(kept[0]); err != nil || !bytes.Equal(raw, []byte("\x00\x01")) {
		t.Errorf("%q is kept, %v", raw, err)
	}
	bad := backends.Input{Parts: []events.Part{{Type: events.PartFile, Data: "no base64!"}}}
	if _, err := c.Run(t.Context(), bad, rec); class(err) != events.ErrInvalidRequest {
		t.Error(err)
	}
}

// inFiles looks for a token in all files below folders.
func inFiles(t *testing.T, token string, dirs ...string) {
	t.Helper()
	files := 0
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			raw, err := os.ReadFile(path)
			if files++; bytes.Contains(raw, []byte(token)) {
				t.Errorf("the token is in %s", path)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	if files == 0 {
		t.Errorf("there is no file below %q", dirs)
	}
}

// inProcesses looks for a token in the environment and the command lines of the
// processes that belong to an agent's home.
func inProcesses(t *testing.T, token, home string) {
	t.Helper()
	all, _ := filepath.Glob("/proc/[0-9]*")
	found := 0
	for _, p := range all {
		env, _ := os.ReadFile(filepath.Join(p, "environ")) // one that has ended has none
		if !bytes.Contains(env, []byte(home)) {
			continue
		}
		line, err := os.ReadFile(filepath.Join(p, "cmdline"))
		if found++; err != nil || bytes.Contains(env, []byte(token)) || bytes.Contains(line, []byte(token)) {
			t.Errorf("%s: %q, in its environment: %v, %v", p, line, bytes.Contains(env, []byte(token)), err)
		}
	}
	if found == 0 {
		t.Error("there is no process of the agent's")
	}
}
