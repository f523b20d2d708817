package copilot_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"innerd/backends/copilot"
)

// act is one thing the fake copilot does. Texts may hold {{sid}}, the session
// of the last message that named one, and {{id}}, the id of the last send.
type act struct {
	Expect string // reads messages up to one that holds this; it is not answered
	Answer string // answers that one with a result
	Refuse string // or with an error
	Event  string // prints an event of the session
	Other  string // session of the next events; "" is that of the last message
	Raw    string // prints bytes
	Slow   bool   // prints what follows in three pieces
	Stderr string
	Exit   *int
	Hang   bool   // reads on and answers nothing
	Gate   string // waits until there is such a file
	Stays  string // does not end with its input; "TERM": nor when it is told to, nor do its children
}

// What the fake answers by itself unless an act expects it.
var usual = map[string]string{
	"connect":                             `{"ok":true,"protocolVersion":3,"version":"` + copilot.Version + `"}`,
	"ping":                                `{"message":"pong"}`,
	"session.create":                      `{}`,
	"session.resume":                      `{}`,
	"session.detach":                      `{"success":true}`,
	"sessions.save":                       `{}`,
	"session.tasks.list":                  `{"tasks":[]}`,
	"session.tasks.cancel":                `{"cancelled":true}`,
	"session.model.setReasoningEffort":    `{}`,
	"session.abort":                       `{"success":true}`,
	"session.plan.readSqlTodos":           `{"rows":[{"id":"a","title":"Do it","status":"in_progress"}]}`,
	"session.tools.handlePendingToolCall": `{"success":true}`,
	"session.permissions.handlePendingPermissionRequest": `{"success":true}`,
}

func exit(code int) *int { return &code }

// send takes an input and begins with it, as the real one does.
func send(id string) []act {
	return []act{
		{Expect: `"method":"session.send"`},
		{Answer: `{"messageId":"` + id + `"}`},
		{Event: `{"type":"user.message","data":{"messageId":"` + id + `","content":"x"}}`},
		{Event: `{"type":"assistant.turn_start","data":{"turnId":"0"}}`},
	}
}

// say is a whole answer of the model, without deltas.
func say(text string) act {
	return act{Event: fmt.Sprintf(`{"type":"assistant.message","data":{"messageId":"m-%s","content":%q,"model":"fake"}}`, text, text)}
}

// stop is the end of a turn.
var stop = []act{{Event: `{"type":"assistant.idle","data":{}}`}, {Event: `{"type":"session.idle","data":{}}`}}

const used = `{"type":"assistant.usage","data":{"inputTokens":10,"outputTokens":2,"cost":0.33,"finishReason":"stop","model":"fake"}}`

func acts(parts ...[]act) []act { return slices.Concat(parts...) }

// fake is the body of the fake's process.
func fake() int {
	raw, err := os.ReadFile(os.Getenv("FAKE_SCRIPT"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "fake:", err)
		return 98
	}
	var script []act
	if err := json.Unmarshal(raw, &script); err != nil {
		fmt.Fprintln(os.Stderr, "fake:", err)
		return 98
	}
	dumpLaunch()
	in, err := os.OpenFile(os.Getenv("FAKE_SCRIPT")+".in", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return 98
	}
	p := &player{in: bufio.NewReader(os.Stdin), log: in}
	return p.play(script)
}

// dumpLaunch leaves how the fake was started where the test finds it.
func dumpLaunch() {
	b, _ := json.Marshal(map[string]any{"args": os.Args[1:], "env": os.Environ()})
	f, err := os.OpenFile(os.Getenv("FAKE_SCRIPT")+".launches", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, _ = f.Write(append(b, '\n'))
		_ = f.Close()
	}
}

type player struct {
	in    *bufio.Reader
	log   io.Writer
	id    json.RawMessage // of the message that was expected
	sid   string
	other string
	slow  bool
	stays bool
}

type inbound struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		SessionID string `json:"sessionId"`
	} `json:"params"`
}

func (p *player) play(script []act) int {
	for _, a := range script {
		switch {
		case a.Expect != "":
			if !p.expect(a.Expect) {
				fmt.Fprintln(os.Stderr, "fake: never came:", a.Expect)
				return 97
			}
		case a.Answer != "":
			p.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, p.id, a.Answer))
		case a.Refuse != "":
			p.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":%q}}`, p.id, a.Refuse))
		case a.Event != "":
			sid := p.sid
			if p.other != "" {
				sid = p.other
			}
			p.write(`{"jsonrpc":"2.0","method":"session.event","params":{"sessionId":"` + sid + `","event":` + a.Event + `}}`)
		case a.Other != "":
			p.other = a.Other
		case a.Raw != "":
			fmt.Print(a.Raw)
		case a.Slow:
			p.slow = true
		case a.Stderr != "":
			fmt.Fprintln(os.Stderr, a.Stderr)
		case a.Exit != nil:
			return *a.Exit
		case a.Gate != "":
			for !exists(a.Gate) {
				time.Sleep(5 * time.Millisecond)
			}
		case a.Stays != "":
			p.stays = true
			if err := stay(a.Stays == "TERM"); err != nil {
				fmt.Fprintln(os.Stderr, "fake:", err)
				return 98
			}
		case a.Hang:
			_, _ = io.Copy(io.Discard, p.in)
			select {}
		}
	}
	p.expect("\x00") // never comes: the usual until the end
	for p.stays {
		time.Sleep(time.Hour)
	}
	return 0
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func frame(body string) string { return fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body) }

func (p *player) write(body string) {
	frame := frame(body)
	if !p.slow {
		fmt.Print(frame)
		return
	}
	for i := range 3 {
		fmt.Print(frame[i*len(frame)/3 : (i+1)*len(frame)/3])
		time.Sleep(5 * time.Millisecond)
	}
}

// expect answers as usual up to a message that holds want.
func (p *player) expect(want string) bool {
	for {
		body := readFrame(p.in)
		if body == nil {
			return false
		}
		_, _ = p.log.Write(append(body, '\n'))
		var m inbound
		_ = json.Unmarshal(body, &m)
		if m.Params.SessionID != "" {
			p.sid = m.Params.SessionID
		}
		if strings.Contains(string(body), want) {
			p.id = m.ID
			return true
		}
		if answer, ok := usual[m.Method]; ok && len(m.ID) > 0 {
			p.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, answer))
		}
	}
}
