package copilot

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"innerd/backends"
)

// maxToolName is what the models' APIs allow.
const maxToolName = 64

// toolset is the host's tools under the names that the model sees. Copilot
// refuses a session with a name outside [A-Za-z0-9_-]; so the names are made
// here, and unique. One of copilot's own tools keeps its name for the host: it
// is overridden, or every turn would fail.
type toolset struct {
	tools  []backends.Tool
	names  []string       // as listed, one for each tool
	byName map[string]int // listed name → index
}

func newToolset(tools []backends.Tool) *toolset {
	ts := &toolset{tools: tools, byName: make(map[string]int, len(tools))}
	for i, t := range tools {
		name := mangle(t.Name)
		for n := 2; ; n++ {
			if _, taken := ts.byName[name]; !taken {
				break
			}
			name = withSuffix(mangle(t.Name), "_"+strconv.Itoa(n))
		}
		ts.byName[name] = i
		ts.names = append(ts.names, name)
	}
	return ts
}

// host is the tool of a listed name.
func (ts *toolset) host(name string) (backends.Tool, bool) {
	i, ok := ts.byName[name]
	if !ok {
		return backends.Tool{}, false
	}
	return ts.tools[i], true
}

// params are the tools as a session takes them.
func (ts *toolset) params() []toolParams {
	out := make([]toolParams, 0, len(ts.tools))
	for i, t := range ts.tools {
		schema := t.Schema
		if !isObject(schema) {
			schema = []byte(`{"type":"object"}`)
		}
		out = append(out, toolParams{
			Name: ts.names[i], Description: t.Description, Parameters: schema, Overrides: true, SkipPermission: true,
		})
	}
	return out
}

// renamed tells the model which tools have other names than the host calls
// them; "" if none.
func (ts *toolset) renamed() string {
	var b strings.Builder
	for i, t := range ts.tools {
		if ts.names[i] != t.Name {
			fmt.Fprintf(&b, "\nThe tool that is called %q in instructions and by the user is the tool %s.", t.Name, ts.names[i])
		}
	}
	return strings.TrimPrefix(b.String(), "\n")
}

func mangle(name string) string {
	s := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, name)
	if s == "" {
		s = "_"
	}
	if len(s) <= maxToolName {
		return s
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return withSuffix(s, "_"+strconv.FormatUint(uint64(h.Sum32()), 36))
}

func withSuffix(s, suffix string) string {
	if over := len(s) + len(suffix) - maxToolName; over > 0 {
		s = s[:len(s)-over]
	}
	return s + suffix
}

// listed is the name under which the model sees a tool of the host's.
func (ts *toolset) listed(tool string) string {
	for i, t := range ts.tools {
		if t.Name == tool {
			return ts.names[i]
		}
	}
	return tool
}
