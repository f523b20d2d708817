package backendtest

import (
	"fmt"
	"strings"

	"innerd/backends"
	"innerd/events"
)

const everyNativeTool = "permission-every-native-tool"

// natives is the case that asks for each of the agent's own tools.
func (r Rig) natives() []Case {
	c := Case{
		Name: everyNativeTool, Why: "nothing that the agent can do by itself is kept from the host's eyes",
		Needs: []Need{NeedPermissions, NeedNatives},
	}
	all := []string{}
	for _, n := range r.Natives {
		all = append(all, n.Name)
	}
	for _, n := range r.Natives {
		if n.Unasked == "" {
			c.Turns = append(c.Turns, nativeTurn(n, all))
		}
	}
	if len(c.Turns) == 0 { // a rig without them says so in Lacks
		c.Turns = []Turn{again()}
	}
	return []Case{c}
}

func nativeTurn(n NativeTool, all []string) Turn {
	text := fmt.Sprintf("%s was not allowed.", n.Name)
	return Turn{
		Prompt: "Use " + n.Name + ".", Permission: backends.PermissionAsk, Interactive: true, Files: n.Files,
		Steps: []Step{{Native: &Native{Tool: n.Name, Input: n.Input}}, {Text: text}},
		Host: Host{Replies: []Reply{{
			Kind: events.KindPermission, Many: true,
			Answer: events.Answer{Outcome: events.OutcomeDenied, By: "host", Message: "not this one"},
		}}},
		Want: Want{NoTool: true, Asked: true, Said: []string{text}, Natives: all},
	}
}

// but is what is not as it should be in a case that passes.
func (r Rig) but(c Case) string {
	var out []string
	if why := r.But[c.Name]; why != "" {
		out = append(out, why)
	}
	if c.Name != everyNativeTool {
		return strings.Join(out, "; ")
	}
	for _, n := range r.Natives {
		if n.Unasked != "" {
			out = append(out, n.Name+" is not asked for: "+n.Unasked)
		}
	}
	return strings.Join(out, "; ")
}
