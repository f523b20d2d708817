package backendtest

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"testing"

	"innerd/events"
)

// Attachments is a prompt with files: one that is text, one whose name leads out
// of every folder, one by its path, which is given too, and an image that no
// model takes.
func Attachments(t testing.TB) (parts []events.Part, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "table.csv")
	if err := os.WriteFile(path, []byte("a,b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	data := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	return []events.Part{
		events.Text("Look."), events.Text(""),
		{Type: events.PartFile, Name: "notes.txt", MimeType: "text/plain", Data: data("the notes say so")},
		{Type: events.PartFile, Name: "../../evil.bin", MimeType: "application/octet-stream", Data: data("\x00\x01")},
		{Type: events.PartFile, Name: "table.csv", Path: path},
		{Type: events.PartImage, MimeType: "image/svg+xml", Name: "x.svg", Data: data("<svg/>")},
	}, path
}
