//go:build linux

package hostile

import (
	"encoding/json"
	"strings"

	"innerd/backends/claudecode"
)

const claudeVersion = claudecode.Version

// claude speaks as Claude Code does: lines, with a control channel in them.
type claude struct{ *agent }

func newClaude(a *agent) tongue { return claude{a} }

func (claude) frame(body []byte) []byte { return append(body, '\n') }

func (c claude) mcp(*turn) (url, token string) { return "", "" }

func (c claude) take() bool {
	line, err := c.in.ReadBytes('\n')
	if err != nil {
		return false
	}
	var m struct {
		Type      string          `json:"type"`
		UUID      string          `json:"uuid"`
		RequestID string          `json:"request_id"`
		Message   json.RawMessage `json:"message"`
		Response  struct {
			RequestID string          `json:"request_id"`
			Response  json.RawMessage `json:"response"`
		} `json:"response"`
	}
	_ = json.Unmarshal(line, &m) // what is no message is passed over
	switch m.Type {
	case "control_request":
		c.write(`{"type":"control_response","response":{"subtype":"success","request_id":%q,"response":{}}}`, m.RequestID)
	case "control_response":
		c.answered(m.Response.RequestID, textIn(m.Response.Response, "text"))
	case "user":
		t := &turn{id: m.UUID}
		c.write(`{"type":"command_lifecycle","command_uuid":%q,"state":"started"}`, t.id)
		c.write(`{"type":"stream_event","event":{"type":"message_start","message":{"id":"m-%s","model":"claude-fake"}}}`, t.id)
		c.write(`{"type":"stream_event","event":{"type":"content_block_start","content_block":{"type":"text","text":""}}}`)
		go c.play(t, texts(m.Message)) // ends with the turn, or with the process
	}
	return true
}

// texts are all texts of a message, in order.
func texts(raw json.RawMessage) string {
	var m struct {
		Content json.RawMessage `json:"content"`
	}
	_ = json.Unmarshal(raw, &m)
	var s string
	if json.Unmarshal(m.Content, &s) == nil {
		return s
	}
	return inputs(m.Content)
}

// inputs are the texts of a list of parts.
func inputs(raw json.RawMessage) string {
	var parts []struct {
		Text string `json:"text"`
	}
	_ = json.Unmarshal(raw, &parts)
	var all []string
	for _, p := range parts {
		all = append(all, p.Text)
	}
	return strings.Join(all, "\n")
}

func (c claude) say(_ *turn, text string) {
	c.write(`{"type":"stream_event","event":{"type":"content_block_delta","delta":{"type":"text_delta","text":"%s"}}}`, text)
}

func (c claude) call(t *turn, tool, id, arg string) {
	got := c.ask(func(req string) {
		c.write(`{"type":"control_request","request_id":%q,"request":{"subtype":"mcp_message","server_name":"host","message":{"jsonrpc":"2.0","id":%s,`+
			`"method":"tools/call","params":{"name":%q,"arguments":{"of":%q},"_meta":{"claudecode/toolUseId":%q}}}}}`, req, req, tool, arg, id)
	})
	c.speak(t, quoted("got "+got+". "))
}

func (c claude) done(t *turn) {
	c.write(`{"type":"stream_event","event":{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":7}}}`)
	c.write(`{"type":"stream_event","event":{"type":"message_stop"}}`)
	c.write(`{"type":"result","is_error":false,"num_turns":1,"stop_reason":"end_turn","user_message_uuids":[%q]}`, t.id)
}
