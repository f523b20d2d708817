package backendtest

import (
	"encoding/json"
	"slices"
	"strings"

	"innerd/backends"
	"innerd/events"
)

// input is what the suite puts into the agent.
func input(turn Turn, setup Setup) backends.Input {
	in := backends.Input{History: turn.History, Set: merge(setup.Settings, turn.Set)}
	if turn.Prompt != "" {
		in.Parts = append(in.Parts, events.Text(turn.Prompt))
	}
	in.Parts = append(in.Parts, turn.Attach...)
	if setup.Prompt != "" {
		in.Parts = append(in.Parts, events.Text(setup.Prompt))
	}
	in.Set.System, in.Set.Interactive, in.Set.Permission = turn.System, turn.Interactive, turn.Permission
	if in.Set.Permission == "" {
		in.Set.Permission = backends.PermissionAuto
	}
	in.Set.Tools = slices.Concat(Tools(turn.Steps), turn.Tools, in.Set.Tools)
	return in
}

// merge puts what a case says over what its rig needs.
func merge(rig, c backends.Settings) backends.Settings {
	out := rig
	if c.Model != "" {
		out.Model = c.Model
	}
	if c.Effort != "" {
		out.Effort = c.Effort
	}
	if c.ThinkingTokens != 0 {
		out.ThinkingTokens = c.ThinkingTokens
	}
	if c.MaxTurns != 0 {
		out.MaxTurns = c.MaxTurns
	}
	if c.MaxCost != 0 {
		out.MaxCost = c.MaxCost
	}
	if c.Background != "" {
		out.Background = c.Background
	}
	if len(c.ToolChoice) > 0 {
		out.ToolChoice = c.ToolChoice
	}
	if len(c.Schema) > 0 {
		out.Schema = c.Schema
	}
	return out
}

// expand puts what the placeholders of a turn stand for into it.
func (r Rig) expand(turn Turn, dir, added string) Turn {
	raw, err := json.Marshal(turn)
	if err != nil {
		panic("backendtest: " + err.Error()) // a case with arguments that are no JSON
	}
	old := string(raw)
	next := strings.NewReplacer(
		InDir, dir, InAdded, added, InModel, r.Models[0], InOtherModel, r.Models[1],
		InEffort, r.Efforts[0], InMoreEffort, r.Efforts[1], InClash, r.Clash,
	).Replace(old)
	if next == old {
		return turn
	}
	var out Turn
	if err := json.Unmarshal([]byte(next), &out); err != nil {
		panic("backendtest: " + err.Error()) // a name with a quote in it
	}
	return out
}
