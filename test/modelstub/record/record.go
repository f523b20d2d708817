// Package record makes the golden transcripts in test/testdata/claude: what
// the real Claude Code CLI wrote, and what was written to it, while it talked
// to a scripted model. They are what the Claude backend is tested against
// where the real CLI would be too slow or not wicked enough. See the README.
package record

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"

	"innerd/test/modelstub/claudecli"
)

// Normalizer replaces what differs between machines and calls: folders, ids,
// process numbers, times. Equal ids stay equal.
type Normalizer struct {
	paths *strings.Replacer
	ids   map[string]string
}

// NewNormalizer takes pairs of a folder and what it is called instead.
func NewNormalizer(folders ...string) *Normalizer {
	var pairs []string
	for i := 0; i+1 < len(folders); i += 2 {
		pairs = append(pairs, folders[i], folders[i+1], slug(folders[i]), slug(folders[i+1]))
	}
	return &Normalizer{paths: strings.NewReplacer(pairs...), ids: map[string]string{}}
}

// slug is how the CLI names a folder of sessions after a working directory.
func slug(path string) string { return regexp.MustCompile(`[^a-zA-Z0-9]`).ReplaceAllString(path, "-") }

var (
	uuids   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	times   = regexp.MustCompile(`"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"`)
	numbers = regexp.MustCompile(`"(pid|durationMs|\w+_ms)":\d+(\.\d+)?`)
	socket  = regexp.MustCompile(`/tmp/cc-socks/\d+\.sock`)
	port    = regexp.MustCompile(`127\.0\.0\.1:\d+`)
	blob    = regexp.MustCompile(`-blob-\d+-\w+`)
	tmpUser = regexp.MustCompile(`/tmp/claude-\d+/`)
)

// Line normalizes the JSON of one line.
func (n *Normalizer) Line(js []byte) []byte {
	s := n.paths.Replace(string(js))
	s = uuids.ReplaceAllStringFunc(s, n.id)
	s = times.ReplaceAllString(s, `"2026-01-01T00:00:00.000Z"`)
	s = numbers.ReplaceAllString(s, `"$1":100`)
	s = socket.ReplaceAllString(s, "/tmp/cc-socks/1.sock")
	s = blob.ReplaceAllString(s, "-blob-1-x")
	s = tmpUser.ReplaceAllString(s, "/tmp/claude-0/")
	return []byte(port.ReplaceAllString(s, "127.0.0.1:1"))
}

// id keeps ids that a test chose, which are easy to know by their zeros.
func (n *Normalizer) id(old string) string {
	if strings.Contains(old, "-0000-4000-8000-0000000000") {
		return old
	}
	if _, ok := n.ids[old]; !ok {
		n.ids[old] = fmt.Sprintf("00000000-0000-4000-8000-%012d", 1001+len(n.ids))
	}
	return n.ids[old]
}

// Marshal is the file of a transcript.
func (n *Normalizer) Marshal(log []claudecli.Entry) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for _, e := range log {
		e.Line = n.Line(e.Line)
		if err := enc.Encode(e); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// Read reads the file of a transcript.
func Read(path string) ([]claudecli.Entry, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var out []claudecli.Entry
	sc := bufio.NewScanner(bytes.NewReader(data))
	sc.Buffer(nil, len(data)+1)
	for sc.Scan() {
		var e claudecli.Entry
		if err := json.Unmarshal(sc.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		out = append(out, e)
	}
	return out, sc.Err()
}
