package told_test

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"innerd/backends"
	"innerd/backends/internal/told"
	"innerd/events"
)

func keptIn(home string) told.Kept {
	return told.Kept{Files: backends.NewChildren(backends.ChildrenOptions{}), Home: home}
}

func binary(name string) events.Part {
	return events.Part{Type: events.PartFile, Name: name, MimeType: "application/x", Data: base64.StdEncoding.EncodeToString([]byte("\x00data"))}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// TestKept: an attachment stands where its piece says, until its conversation
// is forgotten; one of another stays.
func TestKept(t *testing.T) {
	home := t.TempDir()
	k := keptIn(home)
	var paths []string
	for _, id := range []string{"a", "b"} {
		p, err := told.Reader{Kept: k, Conversation: id}.Piece(0, binary("../x.bin"))
		_, path, _ := strings.Cut(strings.TrimSuffix(p.Text, "]"), ": ")
		raw, readErr := os.ReadFile(path)
		if err != nil || readErr != nil || string(raw) != "\x00data" || filepath.Dir(path) != filepath.Join(home, "attachments", id) {
			t.Fatal(p, path, err, readErr)
		}
		paths = append(paths, path)
	}
	if err := k.Forget("a"); err != nil || exists(filepath.Dir(paths[0])) || !exists(paths[1]) {
		t.Error(err)
	}
	for _, odd := range []string{"", ".", "..", "../..", "../a", "/"} {
		if err := k.Forget(odd); err == nil || !exists(paths[1]) {
			t.Fatalf("%q was forgotten: %v", odd, err)
		}
	}
}

// TestForgetOld: what is old and of nobody goes, and nothing else.
func TestForgetOld(t *testing.T) {
	home := t.TempDir()
	k := keptIn(home)
	if err := k.ForgetOld(time.Now(), nil); err != nil {
		t.Errorf("where there is nothing: %v", err)
	}
	dir := func(id string) string { return filepath.Join(home, "attachments", id) }
	for id, age := range map[string]time.Duration{"old": 48 * time.Hour, "known": 48 * time.Hour, "new": time.Hour} {
		if _, err := k.Keep(id, binary("x")); err != nil {
			t.Fatal(err)
		}
		then := time.Now().Add(-age)
		if err := os.Chtimes(dir(id), then, then); err != nil {
			t.Fatal(err)
		}
	}
	if err := k.ForgetOld(time.Now().Add(-24*time.Hour), func(id string) bool { return id == "known" }); err != nil {
		t.Error(err)
	}
	if exists(dir("old")) || !exists(dir("known")) || !exists(dir("new")) {
		t.Errorf("old %v, known %v, new %v", exists(dir("old")), exists(dir("known")), exists(dir("new")))
	}
}

// TestForgetFollowsNoLink: agents can write to their home, and could have innerd
// remove what is its own.
func TestForgetFollowsNoLink(t *testing.T) {
	home, ours := t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(ours, "id"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(ours, filepath.Join(home, "attachments")); err != nil {
		t.Skip(err) // a system without links
	}
	k := keptIn(home)
	_ = k.Forget("id")
	_ = k.ForgetOld(time.Now().Add(time.Hour), func(string) bool { return false })
	if !exists(filepath.Join(ours, "id")) {
		t.Error("it is gone")
	}
}

func TestChoice(t *testing.T) {
	tools := []backends.Tool{{Name: "a.b"}, {Name: "c"}}
	for raw, want := range map[string]struct {
		mode, words string
		offered     int
	}{
		``:                           {told.Auto, "", 2},
		`null`:                       {told.Auto, "", 2},
		`"auto"`:                     {told.Auto, "", 2},
		`"none"`:                     {told.None, "Call no tool", 0},
		`{"type":"none"}`:            {told.None, "Call no tool", 0},
		`"required"`:                 {told.Required, "at least one tool", 2},
		`{"type":"any"}`:             {told.Required, "at least one tool", 2},
		`{"mode":"required"}`:        {told.Required, "at least one tool", 2},
		`{"type":"tool","name":"c"}`: {told.Required, "the tool LISTED-c ", 1},
		`{"type":"function","function":{"name":"a.b"}}`: {told.Required, "the tool LISTED-a.b ", 1},
	} {
		c, known := told.ChoiceOf([]byte(raw))
		words := c.Words(func(tool string) string { return "LISTED-" + tool })
		if !known || c.Mode != want.mode || !strings.Contains(words, want.words) || (words == "") != (want.words == "") || len(c.Offered(tools)) != want.offered {
			t.Errorf("%s: %+v %v %q %v", raw, c, known, words, c.Offered(tools))
		}
	}
	for _, raw := range []string{`"sometimes"`, `7`, `[]`, `{"type":"odd"}`} {
		if c, known := told.ChoiceOf([]byte(raw)); known || c.Mode != told.Auto {
			t.Errorf("%s: %+v", raw, c)
		}
	}
}

func TestPieces(t *testing.T) {
	b64 := base64.StdEncoding.EncodeToString
	big := b64(make([]byte, told.MaxImage+3))
	r := told.Reader{Kept: keptIn(t.TempDir()), Conversation: "c", Documents: true}
	for name, c := range map[string]struct {
		part  events.Part
		text  string
		data  bool
		blank bool
	}{
		"text":            {events.Text("hello"), "hello", false, false},
		"nothing":         {events.Text(" \n"), " \n", false, true},
		"json":            {events.Part{Type: events.PartJSON, JSON: []byte(`{"a":1}`)}, `{"a":1}`, false, false},
		"image":           {events.Part{Type: events.PartImage, Data: "AAAA"}, "", true, false},
		"image of a kind": {events.Part{Type: events.PartImage, MimeType: "image/tiff", Data: "AAAA"}, "[attached image (image/tiff): ", false, false},
		"large image":     {events.Part{Type: events.PartImage, Data: big}, "[attached image: ", false, false},
		"image elsewhere": {events.Part{Type: events.PartImage, Path: "/no/such.png", MimeType: "image/png"}, "[attached image (image/png): /no/such.png]", false, false},
		"linked image":    {events.Part{Type: events.PartImage, URL: "http://x/y.png"}, "[attached image: http://x/y.png]", false, false},
		"path":            {events.Part{Type: events.PartFile, Name: "n.txt", Path: "/a/n.txt"}, "[attached file: /a/n.txt]", false, false},
		"small text":      {events.Part{Type: events.PartFile, Name: "n.txt", Data: b64([]byte("words"))}, "[attached file n.txt]\nwords\n[end of n.txt]", false, false},
		"pdf":             {events.Part{Type: events.PartFile, MimeType: "application/pdf", Data: "AAAA"}, "", true, false},
	} {
		p, err := r.Piece(0, c.part)
		if err != nil || !strings.HasPrefix(p.Text, c.text) || (p.Data != "") != c.data || p.Blank() != c.blank {
			t.Errorf("%s: %+.200v %v", name, p, err)
		}
	}
	if _, err := r.Piece(2, events.Part{Type: events.PartFile, Data: "!"}); err == nil || !strings.Contains(err.Error(), "attachment 3") {
		t.Error(err)
	}
}
