package claudescript

import (
	"encoding/json"

	"innerd/backends/backendtest"
	"innerd/test/modelstub"
)

// own ends a model turn with calls of claude's own tools.
func (s *Script) own(step backendtest.Step) bool {
	switch {
	case step.Native != nil:
		s.blocks = append(s.blocks, modelstub.Tool(step.Native.Tool, object(step.Native.Input)))
	case step.Change != nil:
		s.blocks = append(s.blocks, s.change(step.Change)...)
	case step.Subagent != nil:
		s.subagent(step.Subagent)
		return true
	case step.Background != nil:
		s.background(step.Background)
		return true
	case step.Output != nil:
		s.blocks = append(s.blocks, modelstub.Tool("StructuredOutput", step.Output))
	default:
		return false
	}
	s.flush()
	return true
}

// change is how claude changes a file: it has no tool that deletes or moves one.
func (s *Script) change(c *backendtest.Change) []modelstub.Block {
	shell := func(command string) []modelstub.Block {
		s.unasked = true
		return []modelstub.Block{modelstub.Tool("Bash", map[string]any{"command": command, "description": "A command"})}
	}
	switch c.Kind {
	case "create":
		s.unasked = true
		return []modelstub.Block{modelstub.Tool("Write", map[string]any{"file_path": c.Path, "content": c.Text})}
	case "edit": // it must have read what it changes
		s.unasked = true
		s.blocks = append(s.blocks, modelstub.Tool("Read", map[string]any{"file_path": c.Path}))
		s.flush()
		return []modelstub.Block{modelstub.Tool("Edit", map[string]any{"file_path": c.Path, "old_string": c.Old, "new_string": c.New})}
	case "delete":
		return shell("rm '" + c.Path + "'")
	case "move":
		return shell("mv '" + c.Path + "' '" + c.To + "'")
	}
	s.t.Errorf("claudescript: no such change: %s", c.Kind)
	return nil
}

// subagent asks the model first as the main one, then as the other one.
func (s *Script) subagent(a *backendtest.Subagent) {
	s.unasked = true
	s.blocks = append(s.blocks, modelstub.Tool("Agent", map[string]any{
		"description": "A task", "prompt": a.Task, "subagent_type": "general-purpose",
	}))
	s.flush()
	if a.Command != "" {
		s.blocks = append(s.blocks, modelstub.Tool("Bash", map[string]any{"command": a.Command, "description": "A command"}))
		s.flush()
	}
	s.say(modelstub.Text(a.Text))
	s.flush()
}

// background starts a command; its end makes claude ask again by itself.
func (s *Script) background(b *backendtest.Background) {
	if !b.Done {
		s.unasked = true
		s.blocks = append(s.blocks, modelstub.Tool("Bash", map[string]any{
			"command": b.Command, "description": "A command", "run_in_background": true,
		}))
	}
	s.flush()
}

func object(in json.RawMessage) json.RawMessage {
	if len(in) == 0 {
		return json.RawMessage("{}")
	}
	return in
}
