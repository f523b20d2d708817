package changes

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"innerd/events"
)

// maxKept is how much of a file that may be deleted is kept for its diff.
const maxKept = 256 << 10

// Leaving is a file that a shell command names, and that may be gone after it.
// Claude has no tool of its own that deletes or moves files.
type Leaving struct {
	path string
	to   string // where it is moved to, a name or a directory; "" where it is deleted
	text string // what is in it; "" where that is not known, or nothing
}

// LeavingOf are the files that a command may delete or move, as they are
// before it runs. It is a guess at the words of the command: what it came to is
// looked at afterwards.
//
// dir is where the command runs, input that of claude's shell tool.
func LeavingOf(dir string, input json.RawMessage) (out []Leaving) {
	var in struct{ Command string }
	if json.Unmarshal(input, &in) != nil {
		return nil
	}
	for _, words := range commandsOf(in.Command) {
		if words[0] == "git" || words[0] == "sudo" || words[0] == "command" {
			words = words[1:]
		}
		if len(words) == 0 {
			continue
		}
		if words[0] == "cd" { // names are relative to where it went
			return out
		}
		names := plainNames(words[1:])
		switch {
		case words[0] == "rm" || words[0] == "unlink":
			for _, name := range names {
				out = append(out, filesAt(dir, name, "")...)
			}
		case words[0] == "mv" && len(names) > 1:
			last := len(names) - 1
			for _, name := range names[:last] {
				out = append(out, filesAt(dir, name, inside(dir, names[last]))...)
			}
		}
	}
	return out
}

func inside(dir, name string) string {
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(dir, name)
}

// filesAt are the files that a name of a command stands for.
func filesAt(dir, name, to string) (out []Leaving) {
	paths := []string{inside(dir, name)}
	if strings.ContainsAny(name, "*?[") {
		paths, _ = filepath.Glob(inside(dir, name))
	}
	for _, p := range paths {
		info, err := os.Lstat(p)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		l := Leaving{path: p, to: to}
		if to == "" && info.Size() <= maxKept {
			l.text = textIn(dir, p)
		}
		out = append(out, l)
	}
	return out
}

// textIn is what is in a file below dir. Others are nobody's business here: what
// a command names may be ours alone, or lead there by a link.
func textIn(dir, path string) string {
	rel, err := filepath.Rel(dir, path)
	if err != nil || !filepath.IsLocal(rel) {
		return ""
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return ""
	}
	defer root.Close()                                              //nolint:errcheck // nothing is written to it
	f, err := root.OpenFile(rel, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe in its place would never open
	if err != nil {
		return ""
	}
	defer f.Close() //nolint:errcheck // only read
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxKept))
	if err != nil {
		return ""
	}
	return string(raw)
}

// Left tells what became of the file; false where it is still there.
func (l Leaving) Left() (events.FileChange, bool) {
	if _, err := os.Lstat(l.path); !errors.Is(err, fs.ErrNotExist) {
		return events.FileChange{}, false
	}
	if l.to == "" {
		return events.FileChange{Path: l.path, Kind: "delete", Diff: diffOfGone(l.path, l.text)}, true
	}
	to := l.to
	info, err := os.Stat(to)
	if err == nil && info.IsDir() {
		to = filepath.Join(to, filepath.Base(l.path))
		_, err = os.Stat(to)
	}
	if err != nil {
		return events.FileChange{}, false
	}
	name := func(p string) string { return strings.TrimPrefix(p, "/") }
	return events.FileChange{Path: to, Kind: "move", Diff: "rename from " + name(l.path) + "\nrename to " + name(to) + "\n"}, true
}

// plainNames are words that are names of files, and no flags.
func plainNames(words []string) (out []string) {
	for i, w := range words {
		switch {
		case w == "--":
			return append(out, words[i+1:]...)
		case strings.HasPrefix(w, "-"):
		case strings.ContainsAny(w, "$`<>"):
		default:
			out = append(out, w)
		}
	}
	return out
}

// commandsOf cuts a shell's line into commands and these into words, as far as
// that can be seen without being a shell.
func commandsOf(line string) (out [][]string) {
	var words []string
	var word strings.Builder
	var quote rune
	begun := false
	endWord := func() {
		if begun {
			words = append(words, word.String())
			word.Reset()
			begun = false
		}
	}
	endCommand := func() {
		if endWord(); len(words) > 0 {
			out = append(out, words)
			words = nil
		}
	}
	escaped := false
	for _, r := range line {
		switch {
		case escaped:
			word.WriteRune(r)
			begun, escaped = true, false
		case r == '\\' && quote != '\'':
			escaped = true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, begun = r, true
		case r == ' ' || r == '\t':
			endWord()
		case strings.ContainsRune(";&|\n()", r):
			endCommand()
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	endCommand()
	return out
}
