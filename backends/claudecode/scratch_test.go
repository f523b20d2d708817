package claudecode_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/events"
)

// TestScratch: what claude writes beside a session, an image that it was given
// say, goes with the conversation's attachments; nothing of it is left in /tmp.
func TestScratch(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c, s := b.open(t, backends.Config{}, text("I see."))
	rec := backendtest.NewRecorder(backendtest.Turn{}, nil, nil)
	_, err := c.Run(t.Context(), backends.Input{Parts: []events.Part{
		events.Text("Look."), {Type: events.PartImage, MimeType: "image/png", Data: pixel},
	}}, rec)
	rec.Close()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	shared, _ := filepath.Glob(filepath.Join(os.TempDir(), fmt.Sprintf("claude-%d", os.Getuid()), "*"+strings.ReplaceAll(filepath.Base(filepath.Dir(s.dir)), "_", "-")+"*"))
	if len(shared) > 0 {
		t.Errorf("it has left %q", shared)
	}
	kept := filepath.Join(b.home, "claude", "attachments", "01TESTTESTTESTTESTTESTTEST")
	if !holds(t, kept, ".png") {
		t.Error("the image is not with the attachments")
	}
	if err := b.last.Forget("01TESTTESTTESTTESTTESTTEST"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(kept); err == nil {
		t.Error("it stays when the conversation is forgotten")
	}
}

// pixel is the smallest image.
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// holds reports whether a file of a kind is below a folder.
func holds(t *testing.T, dir, suffix string) (found bool) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		t.Log(path)
		found = found || strings.HasSuffix(path, suffix)
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return found
}
