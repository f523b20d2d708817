package codex

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
)

// A thread is kept in one file of JSON lines, its rollout, from which codex
// loads it. Its tools stand in the first line and its developer instructions
// in a message; thread/resume takes neither anew. So a thread that is to have
// others is unloaded, its file is rewritten and it is resumed: 20 to 40 ms, and
// it keeps its memory, its id and its usage. A file that does not look as
// expected is left alone: then the conversation needs a new session.

var (
	threadForm = regexp.MustCompile(`^[0-9a-fA-F][0-9a-fA-F-]{7,63}$`)
	// ours is our part of the instructions, a JSON string of its own.
	ours = regexp.MustCompile(`"<host_instructions>(?:[^"\\]|\\.)*</host_instructions>"`)

	errForm = errors.New("the thread's file has another form than expected")
)

// rollout is the file of a thread, "" if there is none.
func (c *conversation) rollout(thread string) string {
	if !threadForm.MatchString(thread) {
		return ""
	}
	found, err := filepath.Glob(filepath.Join(c.b.codexHome(), "sessions", "*", "*", "*", "rollout-*-"+thread+".jsonl"))
	if err != nil || len(found) == 0 {
		return ""
	}
	return found[len(found)-1]
}

// amend gives a thread that is not loaded its tools (JSON of a list) and its
// instructions. Codex writes the file itself: it may run as another user.
func (c *conversation) amend(ctx context.Context, s *server, path, tools, system string) error {
	old, err := c.readFile(ctx, s, path)
	if err != nil {
		return err
	}
	data, err := amended(old, tools, system)
	if err != nil || bytes.Equal(old, data) {
		return err
	}
	if v := writtenBy(old); v != Version { // where that one keeps what, nobody has looked
		return fmt.Errorf("%w: it was written by codex %q", errForm, v)
	}
	return c.replaceFile(ctx, s, path, data)
}

// writtenBy is the release of codex that began a thread's file.
func writtenBy(data []byte) string {
	first, _, _ := bytes.Cut(data, []byte{'\n'})
	var head struct {
		Payload struct {
			Version string `json:"cli_version"`
		} `json:"payload"`
	}
	_ = json.Unmarshal(first, &head) // one that is none has no version
	return head.Payload.Version
}

type fsContent struct {
	Path string `json:"path,omitempty"`
	Data string `json:"dataBase64,omitempty"`
}

// readFile reads a file of codex's.
func (c *conversation) readFile(ctx context.Context, s *server, path string) ([]byte, error) {
	data, err := c.b.o.Children.ReadFile(path, 0)
	if !errors.Is(err, fs.ErrPermission) {
		return data, err
	}
	var r fsContent
	if err := c.call(ctx, s, "fs/readFile", fsContent{Path: path}, &r); err != nil {
		return nil, err
	}
	return base64.StdEncoding.DecodeString(r.Data)
}

// replaceFile has codex put a file in the place of another in one step.
func (c *conversation) replaceFile(ctx context.Context, s *server, path string, data []byte) error {
	next := path + ".next"
	err := c.call(ctx, s, "fs/writeFile", fsContent{Path: next, Data: base64.StdEncoding.EncodeToString(data)}, nil)
	if err != nil {
		return err
	}
	var r struct {
		Code   int    `json:"exitCode"`
		Stderr string `json:"stderr"`
	}
	err = c.call(ctx, s, "command/exec", map[string]any{
		"command": []string{"mv", "-f", next, path}, "cwd": filepath.Dir(path),
		"sandboxPolicy": map[string]string{"type": "dangerFullAccess"}, "timeoutMs": (c.b.callLimit / 2).Milliseconds(), // so that codex can say so
	}, &r)
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("mv: exit code %d: %s", r.Code, r.Stderr)
	}
	return err
}

func amended(data []byte, tools, system string) ([]byte, error) {
	first, rest, ok := bytes.Cut(data, []byte{'\n'})
	if !ok {
		return nil, errForm
	}
	first, err := withTools(first, tools)
	if err != nil {
		return nil, err
	}
	text, err := plainJSON(system)
	if err != nil {
		return nil, err
	}
	found := false
	out := append(bytes.Clone(first), '\n')
	for line := range bytes.Lines(rest) {
		if bytes.Contains(line, []byte(openTag)) && ofDeveloper(line) {
			line = ours.ReplaceAllFunc(line, func([]byte) []byte { found = true; return text })
		}
		if bytes.Contains(line, []byte(`"type":"compacted"`)) {
			if line, err = compactedWith(line, tools); err != nil {
				return nil, err
			}
		}
		out = append(out, line...)
	}
	if !found {
		return nil, errForm
	}
	return out, nil
}

// ofDeveloper reports whether a line may hold our instructions: not where
// somebody only quoted them.
func ofDeveloper(line []byte) bool {
	var l struct {
		Type    string `json:"type"`
		Payload struct {
			Role string `json:"role"`
		} `json:"payload"`
	}
	return json.Unmarshal(line, &l) == nil && (l.Type == "response_item" && l.Payload.Role == "developer" || l.Type == "compacted")
}

// storedTool is a dynamic tool as the first line has it.
type storedTool struct {
	Type        string          `json:"type,omitempty"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
}

// withTools is the first line with other tools; the line as it is, where they
// are the same.
func withTools(line []byte, tools string) ([]byte, error) {
	var head struct {
		Type    string          `json:"type"`
		Payload json.RawMessage `json:"payload"`
	}
	var payload map[string]json.RawMessage
	if json.Unmarshal(line, &head) != nil || head.Type != "session_meta" || json.Unmarshal(head.Payload, &payload) != nil {
		return nil, errForm
	}
	if sameTools(payload["dynamic_tools"], tools) {
		return line, nil
	}
	var whole map[string]json.RawMessage
	if err := json.Unmarshal(line, &whole); err != nil {
		return nil, errForm
	}
	payload["dynamic_tools"] = json.RawMessage(orElse(tools, "[]"))
	if string(payload["dynamic_tools"]) == "[]" {
		delete(payload, "dynamic_tools")
	}
	raw, err := plainJSON(payload)
	if err != nil {
		return nil, err
	}
	whole["payload"] = raw
	return plainJSON(whole)
}

// compactedWith is a line that a compaction left, which holds the tools too.
func compactedWith(line []byte, tools string) ([]byte, error) {
	type fields = map[string]json.RawMessage
	var whole, payload, meta, held fields
	if json.Unmarshal(line, &whole) != nil || json.Unmarshal(whole["payload"], &payload) != nil {
		return nil, errForm
	}
	if json.Unmarshal(payload["resume_metadata"], &meta) != nil || json.Unmarshal(meta["dynamic_tools"], &held) != nil {
		return line, nil // it holds none
	}
	if sameTools(held["tools"], tools) {
		return line, nil
	}
	held["tools"] = json.RawMessage(orElse(tools, "[]"))
	for _, up := range []struct {
		in  fields
		key string
		of  fields
	}{{meta, "dynamic_tools", held}, {payload, "resume_metadata", meta}, {whole, "payload", payload}} {
		raw, err := plainJSON(up.of)
		if err != nil {
			return nil, err
		}
		up.in[up.key] = raw
	}
	raw, err := plainJSON(whole)
	return append(raw, '\n'), err
}

func sameTools(stored json.RawMessage, wanted string) bool {
	var a, b []storedTool
	if len(stored) > 0 && json.Unmarshal(stored, &a) != nil {
		return false
	}
	if wanted != "" && json.Unmarshal([]byte(wanted), &b) != nil {
		return false
	}
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Name != b[i].Name || a[i].Description != b[i].Description || !sameJSON(a[i].InputSchema, b[i].InputSchema) {
			return false
		}
	}
	return true
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	p, _ := json.Marshal(x)
	q, _ := json.Marshal(y)
	return bytes.Equal(p, q)
}

// plainJSON is json.Marshal without the escapes that are for HTML.
func plainJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), nil
}
