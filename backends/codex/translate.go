package codex

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"innerd/backends"
	"innerd/events"
)

// Names under which codex's own tools are told: those that the model knows
// them by, where there is one.
const (
	toolExec   = "exec_command"
	toolPatch  = "apply_patch"
	toolStdin  = "write_stdin"
	toolView   = "view_image"
	toolSearch = "web_search"
)

// activities are calls that newer models make of sub-agents, which have no
// other item.
var activities = map[string]string{"started": "spawn_agent", "interacted": "send_message", "interrupted": "interrupt_agent"}

// translator turns the notifications of one thread in one turn into events. It
// is used under the turn's lock.
type translator struct {
	speaker
	now      func() time.Time
	calls    map[string]*call
	model    string
	retrying bool
	typings  int
	over     bool     // the turn is
	late     []string // what ended after it, in words for the model
}

type call struct {
	name  string
	input json.RawMessage
	start time.Time
	out   strings.Builder // what streamed, in case nothing else is told
	runs  bool            // it was allowed to, and may outlive the turn
	order int
}

func newTranslator(emit func(events.Data)) *translator {
	return &translator{speaker: speaker{emit: emit}, now: time.Now, calls: map[string]*call{}}
}

// notification translates one; false: it is of a kind that is not known.
func (t *translator) notification(method string, n *notification) bool {
	switch method {
	case "item/started":
		t.working()
		return t.started(&n.Item)
	case "item/completed":
		return t.completed(&n.Item)
	case "item/agentMessage/delta":
		t.say(false, n.ItemID, n.Delta)
	case "item/reasoning/summaryTextDelta":
		t.think(n.ItemID, n.SummaryIndex, n.Delta)
	case "item/reasoning/textDelta":
		t.think(n.ItemID, n.ContentIndex, n.Delta)
	case "item/commandExecution/outputDelta":
		t.output(n.ItemID, n.Delta)
	case "item/commandExecution/terminalInteraction":
		t.typed(n)
	case "turn/plan/updated":
		t.plan(n.Plan)
	case "warning", "innerd/notice":
		t.emit(events.Status{State: events.StateNotice, Detail: n.Message})
	case "model/rerouted", "thread/compacted", "item/plan/delta", "item/mcpToolCall/progress", "item/fileChange/patchUpdated",
		"account/rateLimits/updated", "turn/moderationMetadata":
	default:
		return false
	}
	return true
}

// think sends a piece of reasoning; its parts are paragraphs of one block.
func (t *translator) think(item string, part int, text string) {
	if o := t.open; o != nil && o.item == item && o.part != part {
		o.part = part
		t.say(true, item, "\n\n")
	}
	t.say(true, item, text)
	if t.open != nil {
		t.open.part = part
	}
}

// working ends a status that told of trouble.
func (t *translator) working() {
	if t.retrying {
		t.retrying = false
		t.emit(events.Status{State: events.StateWorking})
	}
}

// started: whatever begins ends what was open before it.
func (t *translator) started(it *item) bool {
	switch {
	case t.open != nil && !t.open.whole && it.Type == "userMessage":
		t.takeBack("the agent was given more to think of") // a steer; it begins anew
	case t.open == nil || t.open.item != it.ID:
		t.next()
	}
	switch it.Type {
	case itemCommand:
		t.begin(it.ID, toolExec, commandInput(it.Command, it.Cwd))
	case itemFileChange:
		t.begin(it.ID, toolPatch, patchInput(it.Changes))
	case itemMCP:
		if it.Server != mcpServer { // ours come to the bridge by themselves
			t.begin(it.ID, it.Server+"."+it.Tool, orObject(it.Arguments))
		}
	case itemImageView:
		t.begin(it.ID, toolView, object("path", it.Path))
	case itemCollab:
		t.begin(it.ID, collabName(it.Tool), collabInput(it))
	case itemActivity:
		if name := activities[it.Kind]; name != "" {
			t.begin(it.ID, name, object("agent", it.AgentPath))
		}
	case itemCompaction:
		t.emit(events.Status{State: events.StateCompacting})
		t.retrying = true // the next sign of work says so
	case itemMessage, itemReasoning, itemDynamic, itemWebSearch, "userMessage", "hookPrompt", "plan", "functionCallOutput":
	default:
		return false
	}
	return true
}

func (t *translator) completed(it *item) bool {
	switch it.Type {
	case itemMessage:
		t.confirm(false, it.ID, it.Text)
	case itemReasoning:
		t.confirm(true, it.ID, it.reasoning())
		if t.open != nil && t.open.reasoning {
			t.close("", false)
		}
	case itemWebSearch: // what it looked for is known at its end
		t.begin(it.ID, toolSearch, searchInput(it))
		t.complete(it.ID, events.ToolComplete{Success: true})
	case itemCommand, itemFileChange, itemMCP, itemImageView, itemCollab:
		t.complete(it.ID, completion(it))
		if it.Type == itemFileChange && it.Status == "completed" {
			for _, c := range it.Changes {
				t.emit(c.event())
			}
		}
	case itemCompaction:
		t.working()
	case itemActivity:
		t.complete(it.ID, events.ToolComplete{Success: true})
	case itemDynamic, "userMessage", "hookPrompt", "plan", "functionCallOutput":
	default:
		return false
	}
	return true
}

// reasoning is the summary, or the reasoning itself where there is none.
func (it *item) reasoning() string {
	if len(it.Summary) > 0 {
		return strings.Join(it.Summary, "\n\n")
	}
	return strings.Join(it.Content, "\n\n")
}

func (t *translator) begin(id, name string, input json.RawMessage) {
	if _, again := t.calls[id]; again {
		return
	}
	t.next()
	t.calls[id] = &call{name: name, input: input, start: t.now(), order: len(t.calls)}
	t.emit(events.ToolCall{ID: id, Name: name, Input: input})
}

func (t *translator) output(id, text string) {
	c := t.calls[id]
	if c == nil || text == "" {
		return
	}
	if c.out.Len() < maxKept {
		c.out.WriteString(text)
	}
	t.emit(events.ToolUpdate{ID: id, Name: c.name, Output: text})
}

// typed tells of what the model writes to a command that runs: a call that
// has no item of its own.
func (t *translator) typed(n *notification) {
	if n.Stdin == "" {
		return // it only looked
	}
	t.typings++
	id := n.ItemID + "-stdin-" + strconv.Itoa(t.typings)
	t.begin(id, toolStdin, fields(map[string]any{"session": n.ProcessID, "chars": n.Stdin}))
	t.complete(id, events.ToolComplete{Success: true})
}

// maxKept bounds what is kept of an output that streams, as codex itself
// bounds the whole one.
const maxKept = 1 << 20

func (t *translator) complete(id string, e events.ToolComplete) {
	c := t.calls[id]
	if c == nil {
		return
	}
	delete(t.calls, id)
	e.ID, e.Name = id, c.name
	if e.DurationMS == 0 {
		e.DurationMS = t.now().Sub(c.start).Milliseconds()
	}
	if e.Result == "" {
		e.Result = c.out.String()
	}
	if t.over && c.runs {
		t.late = append(t.late, c.ended(e))
	}
	t.emit(e)
}

// maxTold bounds the output that a model is told of by us.
const maxTold = 4000

// ended tells the model how a call ended that ran in the background.
func (c *call) ended(e events.ToolComplete) string {
	how := "was ended"
	if e.ExitCode != nil {
		how = fmt.Sprintf("has ended with exit code %d", *e.ExitCode)
	}
	out := e.Result
	if len(out) > maxTold {
		out = "…" + strings.ToValidUTF8(out[len(out)-maxTold:], "")
	}
	return fmt.Sprintf("[host] This command, which ran in the background, %s: %s\nIts output:\n%s", how, c.input, out)
}

// running is how many calls may go on when the turn is over.
func (t *translator) running() (n int) {
	for _, c := range t.calls {
		if c.runs {
			n++
		}
	}
	return n
}

// closeCalls ends the calls that codex will not end any more.
func (t *translator) closeCalls() {
	ids := slices.SortedFunc(maps.Keys(t.calls), func(a, b string) int { return t.calls[a].order - t.calls[b].order })
	for _, id := range ids {
		t.complete(id, events.ToolComplete{})
	}
}

func (t *translator) plan(steps []planStep) {
	p := events.Plan{Entries: []events.PlanEntry{}}
	for _, s := range steps {
		p.Entries = append(p.Entries, events.PlanEntry{Content: s.Step, Status: snake(s.Status)})
	}
	t.emit(p)
}

// retry takes back what was cut.
func (t *translator) retry(e *backends.Error, raw turnError) {
	if t.open != nil && !t.open.whole {
		t.takeBack("the model's stream was cut")
	}
	t.retrying = true
	t.emit(events.Status{
		State: events.StateRetrying, Attempt: attempt(raw.Message), ErrorType: e.Type, Detail: orElse(raw.Details, raw.Message),
	})
}

// finish ends the turn's speech. What was cut and will not be said again is partial.
func (t *translator) finish(finish string, cut bool) {
	t.close(finish, cut)
}

// snake is a camelCase word as the wire has words.
func snake(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r >= 'A' && r <= 'Z' {
			b.WriteByte('_')
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}
