//go:build linux

package hostile

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"innerd/backends/codex"
)

const codexVersion = codex.Version

// codexTongue speaks as Codex's app-server does: JSON-RPC, a message a line.
type codexTongue struct {
	*agent
	mu      sync.Mutex
	threads int
	turns   int
	servers map[string][2]string // URL and token of a thread's MCP server
}

func newCodex(a *agent) tongue { return &codexTongue{agent: a, servers: map[string][2]string{}} }

func (*codexTongue) frame(body []byte) []byte { return append(body, '\n') }

type codexParams struct {
	ThreadID string          `json:"threadId"`
	TurnID   string          `json:"turnId"`
	Input    json.RawMessage `json:"input"`
	Config   struct {
		Servers map[string]struct {
			URL     string            `json:"url"`
			Headers map[string]string `json:"http_headers"`
		} `json:"mcp_servers"`
	} `json:"config"`
}

func (c *codexTongue) take() bool {
	line, err := c.in.ReadBytes('\n')
	if err != nil {
		return false
	}
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Result json.RawMessage `json:"result"`
		Params codexParams     `json:"params"`
	}
	_ = json.Unmarshal(line, &m) // what is no message is passed over
	switch m.Method {
	case "":
		c.answered(string(m.ID), textIn(m.Result, "text"))
	case "initialized":
	case "thread/start":
		c.write(`{"id":%s,"result":{"thread":{"id":%q},"model":"m-1"}}`, m.ID, c.thread(&m.Params))
	case "turn/start":
		c.start(m.ID, &m.Params)
	default:
		c.write(`{"id":%s,"result":{}}`, m.ID)
	}
	return true
}

// thread begins one and notes its MCP server.
func (c *codexTongue) thread(p *codexParams) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.threads++
	id := fmt.Sprintf("00000000-0000-7000-8000-%012d", c.threads)
	for _, s := range p.Config.Servers {
		c.servers[id] = [2]string{s.URL, strings.TrimPrefix(s.Headers["Authorization"], "Bearer ")}
	}
	return id
}

func (c *codexTongue) start(id json.RawMessage, p *codexParams) {
	c.mu.Lock()
	c.turns++
	t := &turn{session: p.ThreadID, id: fmt.Sprintf("turn-%d", c.turns)}
	c.mu.Unlock()
	c.write(`{"id":%s,"result":{"turn":{"id":%q,"status":"inProgress"}}}`, id, t.id)
	c.write(`{"method":"turn/started","params":{"threadId":%q,"turn":{"id":%q}}}`, t.session, t.id)
	go c.play(t, inputs(p.Input)) // ends with the turn, or with the process
}

func (c *codexTongue) mcp(t *turn) (url, token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.servers[t.session]
	return s[0], s[1]
}

func (c *codexTongue) say(t *turn, text string) {
	c.write(`{"method":"item/agentMessage/delta","params":{"threadId":%q,"turnId":%q,"itemId":%q,"delta":"%s"}}`, t.session, t.id, t.message(), text)
}

func (c *codexTongue) call(t *turn, tool, id, arg string) {
	got := c.ask(func(req string) {
		c.write(`{"id":%s,"method":"item/tool/call","params":{"threadId":%q,"turnId":%q,"callId":%q,"tool":%q,"arguments":{"of":%q}}}`,
			req, t.session, t.id, id, tool, arg)
	})
	c.item(t) // a call ends the message before it
	c.speak(t, quoted("got "+got+". "))
}

// item ends the message that is open.
func (c *codexTongue) item(t *turn) {
	if id, text := t.next(); len(text) > 0 {
		c.write(`{"method":"item/completed","params":{"threadId":%q,"turnId":%q,"item":{"type":"agentMessage","id":%q,"text":"%s"}}}`, t.session, t.id, id, text)
	}
}

func (c *codexTongue) done(t *turn) {
	c.item(t)
	c.write(`{"method":"turn/completed","params":{"threadId":%q,"turn":{"id":%q,"status":"completed"}}}`, t.session, t.id)
}
