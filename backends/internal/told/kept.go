package told

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"innerd/events"
)

// Files reads and writes with the rights that agents have.
type Files interface {
	ReadFile(path string, limit int64) ([]byte, error)
	WriteFile(path string, data []byte) error
	MkdirAll(path string) error
	// In works in a folder and through no link out of it.
	In(dir string, do func(*os.Root) error) error
}

// Kept are the attachments that agents read with their own tools, in
// HOME/attachments/<conversation>. They stay as long as the conversation may be
// resumed: what was said in it names them.
type Kept struct {
	Files Files
	Home  string // of one agent
}

const attachments = "attachments"

// Keep writes an attachment and gives its path.
func (k Kept) Keep(conversation string, p events.Part) (string, error) {
	raw, err := base64.StdEncoding.DecodeString(p.Data)
	if err != nil {
		return "", fmt.Errorf("it is not base64: %w", err)
	}
	dir, err := k.Folder(first(conversation, "unnamed"))
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, rand.Text()[:8]+"-"+fileName(p))
	return path, k.Files.WriteFile(path, raw)
}

// Folder makes a conversation's folder, or one below it, for what is to go with
// its attachments.
func (k Kept) Folder(conversation string, below ...string) (string, error) {
	dir := filepath.Join(append([]string{k.Home, attachments, conversation}, below...)...)
	return dir, k.Files.MkdirAll(dir)
}

// Forget removes what is kept for a conversation.
func (k Kept) Forget(conversation string) error {
	if conversation == "" || conversation == "." || conversation == ".." || strings.ContainsAny(conversation, `/\`) {
		return fmt.Errorf("no conversation: %q", conversation)
	}
	return k.Files.In(k.Home, func(home *os.Root) error { return home.RemoveAll(attachments + "/" + conversation) })
}

// ForgetOld removes what was last written before a time, of conversations that
// are not known.
func (k Kept) ForgetOld(before time.Time, known func(conversation string) bool) error {
	return k.Files.In(k.Home, func(home *os.Root) error {
		entries, err := fs.ReadDir(home.FS(), attachments)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		var all []error
		for _, e := range entries {
			info, err := e.Info()
			if err != nil || !info.ModTime().Before(before) || known(e.Name()) {
				continue
			}
			all = append(all, home.RemoveAll(attachments+"/"+e.Name()))
		}
		return errors.Join(append(all, err)...)
	})
}

// fileName is a part's name without anything that could lead elsewhere.
func fileName(p events.Part) string {
	name := strings.Map(func(r rune) rune {
		if r == '/' || r == '\\' || r == '*' || r < ' ' {
			return '_'
		}
		return r
	}, p.Name)
	if name == "" {
		return p.Type
	}
	if len(name) > 100 {
		name = strings.ToValidUTF8(name[len(name)-100:], "_")
	}
	return name
}
