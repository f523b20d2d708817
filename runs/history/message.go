// Package history decides what an agent already knows of a conversation, and
// writes the rest as a block of text. It is pure.
package history

import (
	"encoding/json"

	"innerd/events"
)

// Message is one message of a host's history, normalised.
type Message struct {
	Role        string // user, assistant, tool, system, developer, or any other word
	Text        string // the parts of its content, joined
	Reasoning   string
	ToolCalls   []ToolCall
	ToolName    string // role tool: whose result Text is
	ToolCallID  string
	ToolError   bool
	Summary     bool          // stands for everything before it
	Attachments []events.Part // images, files, audio, video; URL, Path or Data
}

// ToolCall is a call an assistant message made.
type ToolCall struct {
	ID        string
	Name      string
	Arguments json.RawMessage // JSON; a string that is not JSON stands quoted
}
