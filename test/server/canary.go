//go:build linux

package server

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

const (
	// stubKeys begin those that scripted models are reached with, whoever gave
	// them: wherever that stands, a key does.
	stubKeys = "sk-stub-"
	// shortestKey is what a text must be long, in bytes, to be looked for: a
	// shorter one stands anywhere.
	shortestKey = 8
	// canaryWindow is what is looked through at once, canaryBytes what is in
	// all: floods write more, and their first part has all kinds of events.
	canaryWindow = 1 << 20
	canaryBytes  = 64 << 20
)

// secrets are the keys that a test gave its server, by who gave them.
func (s *Server) secrets() map[string]string {
	out := map[string]string{"a scripted model": stubKeys}
	for key := range strings.SplitSeq(s.Keys, ",") {
		if _, secret, named := strings.Cut(key, ":"); named {
			key = secret
		}
		out["a caller"] = key
	}
	for _, v := range s.Env {
		name, value, _ := strings.Cut(v, "=")
		if strings.HasSuffix(name, "_KEY") || strings.HasSuffix(name, "_TOKEN") {
			out[name] = value
		}
	}
	return out
}

// canary is a form in which a key may stand somewhere.
type canary struct {
	key, form string
	text      []byte
}

func canaries(secrets map[string]string) (out []canary) {
	for name, secret := range secrets {
		if len(secret) < shortestKey {
			continue
		}
		out = append(out, canary{name, "", []byte(secret)})
		for at := range 3 { // what stands before it shifts it
			text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("\x00", at) + secret))
			text = text[(8*at+5)/6 : (len(secret)+at)*8/6]
			out = append(out, canary{name, " in base64", []byte(text)})
		}
	}
	return out
}

// finder looks for keys and keeps what it found.
type finder struct {
	all   []canary
	found []string
}

// look says whether a text has a key.
func (f *finder) look(where string, text []byte) bool {
	for _, c := range f.all {
		if at := bytes.Index(text, c.text); at >= 0 {
			f.found = append(f.found, fmt.Sprintf("the key of %s stands%s in %s: …%.120q", c.key, c.form, where, text[max(0, at-40):]))
			return true
		}
	}
	return false
}

// Loose says where keys stand that belong nowhere: in a log, or in a file below
// one of some folders. It looks once through each file.
func Loose(secrets map[string]string, log string, dirs ...string) []string {
	f := finder{all: canaries(secrets)}
	f.look("the server's log", []byte(log))
	for _, dir := range dirs {
		f.below(dir)
	}
	return f.found
}

// oneWay is a login that its agent takes from its environment alone: claude has
// no file descriptor for a bearer token (backends/claudecode, login.environ).
var oneWay = regexp.MustCompile(`ANTHROPIC_AUTH_TOKEN=[^\x00]*`)

// Shown says which processes show keys to whoever may read /proc: in their
// environment, or on their command line. One that is gone shows none.
func Shown(secrets map[string]string, pids []int) []string {
	f := finder{all: canaries(secrets)}
	for _, pid := range pids {
		for _, name := range []string{"environ", "cmdline"} {
			path := fmt.Sprintf("/proc/%d/%s", pid, name)
			text, _ := os.ReadFile(path)
			f.look(path, oneWay.ReplaceAllLiteral(text, nil))
		}
	}
	return f.found
}

// below looks through the files below a folder.
func (f *finder) below(dir string) {
	left, buf := canaryBytes, make([]byte, 0, canaryWindow)
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || left <= 0 {
			return nil //nolint:nilerr // there may be none, or no right to
		}
		file, err := os.Open(path)
		if err != nil {
			return nil //nolint:nilerr // so is it here
		}
		defer file.Close() //nolint:errcheck // only read
		where, _ := filepath.Rel(filepath.Dir(dir), path)
		for buf = buf[:0]; left > 0; {
			n, err := io.ReadFull(file, buf[len(buf):cap(buf)])
			buf, left = buf[:len(buf)+n], left-n
			if f.look(where, buf) || err != nil {
				if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
					return err
				}
				return nil
			}
			buf = buf[:copy(buf, buf[len(buf)-1024:])] // one may stand across
		}
		return nil
	})
}
