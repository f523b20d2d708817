package claudecode

import (
	"hash/fnv"
	"strconv"
	"strings"

	"innerd/backends"
)

const (
	serverName = "host"
	mcpPrefix  = "mcp__" + serverName + "__"
	// maxToolName is what the model's API allows, less the prefix.
	maxToolName = 64 - len(mcpPrefix)
)

// toolset is the host's tools under the names that the model sees. Claude
// turns every character outside [A-Za-z0-9_-] into "_" and would then confuse
// "a.b" with "a_b"; so the names are made here, and unique.
type toolset struct {
	tools []backends.Tool
	names []string       // as listed, one for each tool
	byNam map[string]int // listed name → index
}

func newToolset(tools []backends.Tool) *toolset {
	ts := &toolset{tools: tools, byNam: make(map[string]int, len(tools))}
	for i, t := range tools {
		name := mangle(t.Name)
		for n := 2; ; n++ {
			if _, taken := ts.byNam[name]; !taken {
				break
			}
			name = withSuffix(mangle(t.Name), "_"+strconv.Itoa(n))
		}
		ts.byNam[name] = i
		ts.names = append(ts.names, name)
	}
	return ts
}

// host is the tool of a listed name.
func (ts *toolset) host(name string) (backends.Tool, bool) {
	i, ok := ts.byNam[name]
	if !ok {
		return backends.Tool{}, false
	}
	return ts.tools[i], true
}

// listed is the name under which the model sees a tool of the host's.
func (ts *toolset) listed(tool string) string {
	for i, t := range ts.tools {
		if t.Name == tool {
			return mcpPrefix + ts.names[i]
		}
	}
	return tool
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

// isHostTool reports whether a tool as claude names it is one of the host's.
func isHostTool(name string) bool { return strings.HasPrefix(name, mcpPrefix) }
