//go:build linux

package hostile

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync/atomic"

	"innerd/backends/copilot"
)

const copilotVersion = copilot.Version

// copilotTongue speaks as Copilot does: JSON-RPC in Content-Length frames.
type copilotTongue struct {
	*agent
	turns atomic.Int64
}

func newCopilot(a *agent) tongue { return &copilotTongue{agent: a} }

func (*copilotTongue) frame(body []byte) []byte {
	return append(fmt.Appendf(nil, "Content-Length: %d\r\n\r\n", len(body)), body...)
}

// read is the next message; nil: there are no more.
func (c *copilotTongue) read() []byte {
	n := 0
	for {
		line, err := c.in.ReadString('\n')
		if err != nil {
			return nil
		}
		line = strings.TrimSpace(line)
		if line == "" && n > 0 {
			body := make([]byte, n)
			if _, err := io.ReadFull(c.in, body); err != nil {
				return nil
			}
			return body
		}
		if v, ok := strings.CutPrefix(line, "Content-Length:"); ok {
			n, _ = strconv.Atoi(strings.TrimSpace(v))
		}
	}
}

// usual are the answers that say something.
var usual = map[string]string{
	"connect":            `{"ok":true,"protocolVersion":3,"version":"` + copilotVersion + `"}`,
	"session.tasks.list": `{"tasks":[]}`,
}

func (c *copilotTongue) take() bool {
	body := c.read()
	if body == nil {
		return false
	}
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			SessionID string          `json:"sessionId"`
			RequestID string          `json:"requestId"`
			Prompt    string          `json:"prompt"`
			Result    json.RawMessage `json:"result"`
		} `json:"params"`
	}
	_ = json.Unmarshal(body, &m) // what is no message is passed over
	switch {
	case m.Method == "session.send":
		c.start(m.ID, m.Params.SessionID, m.Params.Prompt)
		return true
	case m.Method == "session.tools.handlePendingToolCall":
		c.answered(m.Params.RequestID, textIn(m.Params.Result, "textResultForLlm"))
	}
	if len(m.ID) > 0 {
		answer := usual[m.Method]
		if answer == "" {
			answer = `{"success":true}`
		}
		c.write(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, answer)
	}
	return true
}

func (c *copilotTongue) start(id json.RawMessage, session, prompt string) {
	t := &turn{session: session, id: fmt.Sprintf("in-%d", c.turns.Add(1))}
	c.write(`{"jsonrpc":"2.0","id":%s,"result":{"messageId":%q}}`, id, t.id)
	c.event(t, `{"type":"user.message","data":{"messageId":%q,"content":"x"}}`, t.id)
	c.event(t, `{"type":"assistant.turn_start","data":{"turnId":"0"}}`)
	go c.play(t, prompt) // ends with the turn, or with the process
}

func (c *copilotTongue) event(t *turn, format string, args ...any) {
	c.write(`{"jsonrpc":"2.0","method":"session.event","params":{"sessionId":%q,"event":%s}}`, t.session, fmt.Sprintf(format, args...))
}

func (c *copilotTongue) mcp(*turn) (url, token string) { return "", "" }

func (c *copilotTongue) say(t *turn, text string) {
	c.event(t, `{"type":"assistant.message_delta","data":{"messageId":%q,"deltaContent":"%s"}}`, t.message(), text)
}

func (c *copilotTongue) call(t *turn, tool, id, arg string) {
	c.message(t)
	got := c.ask(func(req string) {
		c.event(t, `{"type":"external_tool.requested","data":{"requestId":%q,"toolName":%q,"toolCallId":%q,"arguments":{"of":%q}}}`, req, tool, id, arg)
	})
	c.speak(t, quoted("got "+got+". "))
}

// message ends the one that is open.
func (c *copilotTongue) message(t *turn) {
	if id, text := t.next(); len(text) > 0 {
		c.event(t, `{"type":"assistant.message","data":{"messageId":%q,"content":"%s","model":"fake"}}`, id, text)
	}
}

func (c *copilotTongue) done(t *turn) {
	c.message(t)
	c.event(t, `{"type":"assistant.idle","data":{}}`)
	c.event(t, `{"type":"session.idle","data":{}}`)
}
