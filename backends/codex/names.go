package codex

import (
	"hash/fnv"
	"strconv"
	"strings"

	"innerd/backends"
	"innerd/events/mcpjson"
)

// maxToolName is what the model's API allows.
const maxToolName = 64

// prefixed is put before a host's tool whose name codex has for itself: of two
// with one name codex would run its own.
const prefixed = "host_"

// nativeNames are the tools that codex declares to some model or other.
var nativeNames = map[string]bool{
	"exec_command": true, "write_stdin": true, "request_user_input": true, "apply_patch": true, "view_image": true,
	"get_goal": true, "create_goal": true, "update_goal": true, "tool_search": true, "web_search": true,
	"update_plan": true, "shell": true, "shell_command": true, "local_shell": true, "container": true, "exec": true, "wait": true, "sleep": true,
	"spawn_agent": true, "send_input": true, "resume_agent": true, "wait_agent": true, "close_agent": true,
	"send_message": true, "followup_task": true, "interrupt_agent": true, "list_agents": true,
	"request_user_input_async": true, "send_message_to_user_async": true, "request_permissions": true,
	"list_mcp_resources": true, "list_mcp_resource_templates": true, "read_mcp_resource": true,
	"image_generation": true,
}

// nativeGroups are the groups in which codex declares some of them. A program of
// a newer model calls these as GROUP__NAME.
var nativeGroups = map[string]bool{"functions": true, "clock": true, "collaboration": true, "multi_agent_v1": true}

// isNative reports whether codex has, or may have, a tool of this name for itself.
func isNative(name string) bool {
	group, _, _ := strings.Cut(name, "__")
	return nativeNames[name] || nativeGroups[group] || strings.HasPrefix(name, "mcp__")
}

// toolset is the host's tools under the names that the model sees.
type toolset struct {
	tools []backends.Tool
	names []string       // one for each tool
	index map[string]int // name → tool
}

func newToolset(tools []backends.Tool) *toolset {
	ts := &toolset{tools: tools, index: make(map[string]int, len(tools))}
	for i, t := range tools {
		base := mangle(t.Name)
		name := base
		for n := 2; ; n++ {
			if _, taken := ts.index[name]; !taken {
				break
			}
			name = withSuffix(base, "_"+strconv.Itoa(n))
		}
		ts.index[name] = i
		ts.names = append(ts.names, name)
	}
	return ts
}

// host is the tool of a name.
func (ts *toolset) host(name string) (backends.Tool, bool) {
	i, ok := ts.index[name]
	if !ok {
		return backends.Tool{}, false
	}
	return ts.tools[i], true
}

func mangle(name string) string {
	s := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, name)
	if s == "" || isNative(s) {
		s = prefixed + s
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

// dynamic is the list as a thread takes it.
func (ts *toolset) dynamic() []dynamicTool {
	out := make([]dynamicTool, 0, len(ts.tools))
	for i, t := range ts.tools {
		out = append(out, dynamicTool{
			Type: "function", Name: ts.names[i],
			Description: orElse(t.Description, t.Name), // codex wants one
			InputSchema: mcpjson.Schema(t.Schema),
		})
	}
	return out
}

// renamed tells the model which tools have another name than the host's.
func (ts *toolset) renamed() string {
	var b strings.Builder
	for i, t := range ts.tools {
		if ts.names[i] != t.Name {
			b.WriteString("\n- " + t.Name + " is the tool " + ts.names[i])
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "\nWhere instructions or the user name one of these tools of the host, they mean:" + b.String()
}

// inPrograms tells newer models, whose programs call the tools, how to see an
// image: a program gets it as text, which codex declares as unknown. Which models
// these are, codex does not say.
func (ts *toolset) inPrograms() string {
	if len(ts.tools) == 0 {
		return ""
	}
	return "\nIn a program (exec), a tool of the host's returns one string. An image in it is a line that begins with data:image/; " +
		"you see it only if the program passes that line to image()."
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
