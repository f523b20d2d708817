package backendtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"innerd/events"
)

// shown checks what the agent showed of its work beside text and tools.
func (c *comparer) shown(w Want) {
	if w.Changes != nil {
		c.changes(w.Changes)
	}
	if w.Subagents != nil {
		c.subagents(w.Subagents)
	}
	states := slices.Concat(fold(c.r.Before).states, c.heard.states)
	for _, s := range w.States {
		if !slices.Contains(states, s) {
			c.fault("no session.status %q; the states: %q", s, states)
		}
	}
	if n := times(states, events.StateRetrying); w.MaxRetries > 0 && n > w.MaxRetries {
		c.fault("it told %d times that it tries again, want at most %d", n, w.MaxRetries)
	}
	if w.Asked && !slices.ContainsFunc(c.heard.requests, func(r request) bool { return r.kind == events.KindPermission }) {
		c.fault("no permission was asked for")
	}
	if w.SameAsks {
		c.sameAsks()
	}
}

func times(all []string, s string) (n int) {
	for _, other := range all {
		if other == s {
			n++
		}
	}
	return n
}

func (c *comparer) changes(want []ChangeWant) {
	if len(want) != len(c.heard.changes) {
		c.fault("%d changes of files, want %d: %s", len(c.heard.changes), len(want), asJSON(c.heard.changes))
		return
	}
	for i, w := range want {
		got := c.heard.changes[i]
		if got.Kind != w.Kind || (got.Path != w.Path && filepath.Base(got.Path) != w.Path) {
			c.fault("change %d is %s of %s, want %s of %s", i, got.Kind, got.Path, w.Kind, w.Path)
		}
		lines := strings.Split(got.Diff, "\n")
		for _, line := range w.Diff {
			if !slices.Contains(lines, line) {
				c.fault("change %d: the diff has no line %q: %q", i, line, short(got.Diff))
			}
		}
		if w.Diff != nil && !strings.Contains(got.Diff, "@@ ") {
			c.fault("change %d: the diff is no unified one, it has no @@: %q", i, short(got.Diff))
		}
	}
}

func (c *comparer) subagents(want []SubagentWant) {
	if len(want) != len(c.heard.subagents) {
		c.fault("%d sub-agents, want %d", len(c.heard.subagents), len(want))
		return
	}
	for i, w := range want {
		got := c.heard.subagents[i]
		if !got.ended {
			c.fault("sub-agent %d has no end", i)
		}
		if !strings.Contains(got.text.String(), w.Text) {
			c.fault("sub-agent %d said %q, want %q in it", i, short(got.text.String()), w.Text)
		}
		if !slices.ContainsFunc(got.outputs, func(s string) bool { return strings.Contains(s, w.Output) }) && w.Output != "" {
			c.fault("sub-agent %d: no tool with its call %q as parent has %q in its result: %q", i, got.parent, w.Output, shorts(got.outputs))
		}
		for _, m := range c.heard.messages {
			if w.Text != "" && strings.Contains(m, w.Text) {
				c.fault("sub-agent %d spoke as the main agent: %q", i, short(m))
			}
		}
	}
}

// sameAsks: a host's "always allow" is kept by tool and input.
func (c *comparer) sameAsks() {
	var first *request
	for i, r := range c.heard.requests {
		if r.kind != events.KindPermission {
			continue
		}
		if first == nil {
			first = &c.heard.requests[i]
			continue
		}
		if r.tool != first.tool || !sameJSON(r.input, first.input) {
			c.fault("the same call was asked for as %s %s and as %s %s", first.tool, short(string(first.input)), r.tool, short(string(r.input)))
		}
	}
	if first == nil {
		c.fault("nothing was asked for")
	}
}

// settings checks how the model was asked, and what came of it.
func (c *comparer) settings(w Want) {
	if w.RetryAfter != 0 && c.r.RetryAfter != w.RetryAfter {
		c.fault("it may be asked again in %v, want %v", c.r.RetryAfter, w.RetryAfter)
	}
	if w.Output != "" {
		c.output(w.Output)
	}
	if w.Model != "" && (c.heard.usage == nil || c.heard.usage.Model != w.Model) {
		c.fault("usage names another model than %q: %s", w.Model, asJSON(c.heard.usage))
	}
	if w.MaxAsks > 0 && c.r.Asks != nil && *c.r.Asks > w.MaxAsks {
		c.fault("the model was asked %d times, want at most %d", *c.r.Asks, w.MaxAsks)
	}
	if seen := c.r.Seen; seen != nil {
		c.seen(w, *seen)
	}
}

func (c *comparer) seen(w Want, seen Seen) {
	if w.Model != "" && seen.Model != w.Model {
		c.fault("model %q was asked, want %q", seen.Model, w.Model)
	}
	if w.Effort != "" && seen.Effort != w.Effort {
		c.fault("the model was asked with effort %q, want %q", seen.Effort, w.Effort)
	}
	for _, name := range w.Offered {
		if !slices.Contains(seen.Tools, name) {
			c.fault("the model was not offered the host's %s; there are %q", name, seen.Tools)
		}
	}
	for _, name := range w.Withheld {
		if slices.Contains(seen.Tools, name) {
			c.fault("the model was offered the host's %s", name)
		}
	}
	for _, name := range seen.Natives {
		if w.Natives != nil && !slices.Contains(w.Natives, name) {
			c.fault("the model was offered the agent's own %s, which the rig does not know", name)
		}
	}
}

// output: what the schema asked for is the turn's output, and the text of its
// last message.
func (c *comparer) output(want string) {
	if !sameJSON(c.r.Output, []byte(want)) {
		c.fault("the output is %q, want %s", short(string(c.r.Output)), want)
	}
	if n := len(c.heard.messages); n == 0 || !sameJSON([]byte(c.heard.messages[n-1]), []byte(want)) {
		c.fault("the last message is not %s: %q", want, shorts(c.heard.messages))
	}
}

// disjoint: no token is counted twice, so that the total is the sum.
func (c *comparer) disjoint() {
	u := c.heard.usage
	if u == nil || u.TotalTokens == nil {
		return
	}
	var sum int64
	for _, n := range []*int64{u.InputTokens, u.OutputTokens, u.CacheReadTokens, u.CacheWriteTokens, u.ReasoningTokens} {
		if n != nil {
			sum += *n
		}
	}
	if sum != *u.TotalTokens {
		c.fault("usage: the total is %d, the sum %d", *u.TotalTokens, sum)
	}
}

// usageFields are all fields of a usage that are there.
func usageFields(u *events.Usage) map[string]any {
	out := map[string]any{}
	_ = json.Unmarshal([]byte(asJSON(u)), &out) // a nil one has none
	return out
}

// path finds what may be a path in a text that is told to a model.
var path = regexp.MustCompile(`/[^\s"'\x60<>\[\]()|*]+`)

// heardPath reports whether a text holds the path of a file with a content.
func heardPath(heard, content string) bool {
	for _, p := range path.FindAllString(heard, -1) {
		for _, p := range []string{p, strings.TrimRight(p, ".,:;")} {
			info, err := os.Stat(p)
			if err != nil || !info.Mode().IsRegular() || info.Size() != int64(len(content)) {
				continue
			}
			if raw, err := os.ReadFile(p); err == nil && bytes.Equal(raw, []byte(content)) {
				return true
			}
		}
	}
	return false
}

// CheckOutside reports what is not as wanted outside the agent: files in the
// conversation's directory, processes that live on.
func (w Want) CheckOutside(dir string) (faults []string) {
	for name, want := range w.Disk {
		raw, err := os.ReadFile(in(dir, name))
		switch {
		case want == nil && err == nil:
			faults = append(faults, fmt.Sprintf("there is a file %s: %q", name, short(string(raw))))
		case want != nil && err != nil:
			faults = append(faults, err.Error())
		case want != nil && string(raw) != *want:
			faults = append(faults, fmt.Sprintf("%s holds %q, want %q", name, short(string(raw)), short(*want)))
		}
	}
	for _, words := range w.Dead {
		var alive []string
		for end := time.Now().Add(fadesIn); ; time.Sleep(10 * time.Millisecond) {
			if alive = processes(words); len(alive) == 0 || time.Now().After(end) {
				break
			}
		}
		for _, p := range alive {
			faults = append(faults, "still runs: "+p)
		}
	}
	return faults
}

// in is a path in a directory, unless it is a whole one.
func in(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// processes are the command lines that hold words.
func processes(words string) (out []string) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range all {
		raw, err := os.ReadFile(name)
		if line := string(bytes.ReplaceAll(raw, []byte{0}, []byte{' '})); err == nil && strings.Contains(line, words) {
			out = append(out, filepath.Base(filepath.Dir(name))+": "+short(line))
		}
	}
	return out
}
