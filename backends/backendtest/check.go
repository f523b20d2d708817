package backendtest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"innerd/backends"
	"innerd/events"
)

// Result is how a turn went, as whoever played it saw it.
type Result struct {
	Events    []events.Event
	Completed bool
	Canceled  bool   // it ended by the cancel of its Host
	Reason    string // of a completed one
	ErrorType string // of a failed one
	Exit      *backends.Exit
	Heard     string // all that the model was told; "" where it can't be seen
	HeardNone bool   // Heard can't be seen: it is not checked

	Output     []byte // structured, as JSON
	RetryAfter time.Duration
	Seen       *Seen          // how the model was asked; nil where that can't be seen
	Asks       *int           // how often; likewise
	Before     []events.Event // what the agent said before the turn, while it compacted
}

// Check reports what is not as wanted.
func (w Want) Check(r Result, cancel bool) []string {
	c := &comparer{r: r, heard: fold(r.Events)}
	c.end(w, cancel)
	c.said(w)
	c.tools(w)
	c.requests(w)
	c.usage(w)
	c.shown(w)
	c.settings(w)
	if !r.HeardNone {
		c.told(w)
	}
	return c.faults
}

// ScriptOver is what a scripted model says when it is asked for more than its
// script has.
const ScriptOver = "(script over)"

type comparer struct {
	r      Result
	heard  folded
	faults []string
}

func (c *comparer) fault(format string, args ...any) {
	c.faults = append(c.faults, fmt.Sprintf(format, args...))
}

func (c *comparer) end(w Want, cancel bool) {
	reason := w.Reason
	if reason == "" {
		reason = backends.ReasonEndTurn
	}
	switch {
	case cancel:
		if !c.r.Canceled {
			c.fault("was canceled, but ended otherwise: completed %v, error %q", c.r.Completed, c.r.ErrorType)
		}
	case w.Error != "":
		if c.r.ErrorType != w.Error {
			c.fault("error is %q, want %q", c.r.ErrorType, w.Error)
		}
	case w.OrError != "" && c.r.ErrorType == w.OrError:
	case !c.r.Completed:
		c.fault("did not complete: error %q, canceled %v", c.r.ErrorType, c.r.Canceled)
	case c.r.Reason != reason:
		c.fault("reason is %q, want %q", c.r.Reason, reason)
	}
	if e := c.r.Exit; w.Exit && (e == nil || (e.Code == 0 && e.Signal == "")) {
		c.fault("the failure does not tell how the process ended: %+v", e)
	}
}

func (c *comparer) said(w Want) {
	if missing := subsequence(w.Said, c.heard.messages); missing != "" {
		c.fault("no message %q in its place; the messages: %q", short(missing), shorts(c.heard.messages))
	}
	if slices.Contains(c.heard.messages, ScriptOver) {
		c.fault("the model was asked more often than the case says: %q", shorts(c.heard.messages))
	}
	for _, words := range w.Never {
		if slices.ContainsFunc(c.heard.messages, func(m string) bool { return strings.Contains(m, words) }) {
			c.fault("%q was said; the messages: %q", words, shorts(c.heard.messages))
		}
	}
	if w.Exact && !slices.Equal(w.Said, c.heard.messages) {
		c.fault("the messages are %q, want %q", shorts(c.heard.messages), w.Said)
	}
	if w.Exact && w.Thought != nil && !slices.Equal(w.Thought, c.heard.reasoning) {
		c.fault("the blocks of reasoning are %q, want %q", shorts(c.heard.reasoning), w.Thought)
	}
	if missing := subsequence(w.Thought, c.heard.reasoning); missing != "" {
		c.fault("no reasoning %q in its place; the blocks: %q", short(missing), shorts(c.heard.reasoning))
	}
	if w.Unsaid && len(c.heard.messages)+c.heard.succeeded > 0 {
		c.fault("wanted nothing; messages %q, tools that ran: %d", shorts(c.heard.messages), c.heard.succeeded)
	}
	if c.heard.discarded < w.Discarded {
		c.fault("%d discarded messages, want %d", c.heard.discarded, w.Discarded)
	}
}

func (c *comparer) tools(w Want) {
	if w.NoTool && c.heard.succeeded > 0 {
		c.fault("%d tools succeeded, want none", c.heard.succeeded)
	}
	if w.Tools == nil {
		return
	}
	if len(w.Tools) != len(c.heard.tools) {
		c.fault("%d calls of its own tools, want %d", len(c.heard.tools), len(w.Tools))
		return
	}
	for i, want := range w.Tools {
		got := c.heard.tools[i]
		if !strings.Contains(inputText(got.input), want.Input) {
			c.fault("call %d: input %s does not hold %q", i, short(string(got.input)), want.Input)
		}
		switch {
		case want.Open:
			continue // it may have been ended too, as a failure
		case got.end == nil:
			c.fault("call %d has no end", i)
			continue
		case got.end.Success != want.Success:
			c.fault("call %d: success %v, want %v", i, got.end.Success, want.Success)
		case !strings.Contains(got.end.Result, want.Output):
			c.fault("call %d: result %q does not hold %q", i, short(got.end.Result), want.Output)
		}
		if want.ExitCode != nil && (got.end.ExitCode == nil || *want.ExitCode != *got.end.ExitCode) {
			c.fault("call %d: exit code %s, want %d", i, asJSON(got.end.ExitCode), *want.ExitCode)
		}
	}
}

// inputText is all texts of a tool's input, a line each.
func inputText(input json.RawMessage) string {
	var out []string
	var collect func(v any)
	collect = func(v any) {
		switch v := v.(type) {
		case string:
			out = append(out, v)
		case []any:
			for _, e := range v {
				collect(e)
			}
		case map[string]any:
			for _, e := range v {
				collect(e)
			}
		}
	}
	var v any
	_ = json.Unmarshal(input, &v) // what is no JSON has no text
	collect(v)
	return strings.Join(out, "\n")
}

func (c *comparer) requests(w Want) {
	if c.heard.together < w.Together {
		c.fault("%d requests were open at once, want %d", c.heard.together, w.Together)
	}
	left := slices.Clone(c.heard.requests)
	for _, want := range w.Requests {
		i := slices.IndexFunc(left, func(got request) bool { return got.fits(want) })
		if i < 0 {
			c.fault("no request %+v; there are %+v", want, left)
			continue
		}
		left = slices.Delete(left, i, i+1)
	}
	for _, r := range left {
		if w.Requests != nil {
			c.fault("a request too many: %+v", r)
		}
	}
	for _, r := range c.heard.requests {
		if r.outcome == "" {
			c.fault("request %s %s was never resolved", r.kind, r.id)
		}
	}
}

func (c *comparer) usage(w Want) {
	c.disjoint()
	for _, name := range w.Counted {
		if _, ok := usageFields(c.heard.usage)[name]; !ok {
			c.fault("usage: there is no %s; all: %s", name, asJSON(c.heard.usage))
		}
	}
	c.times(w.Held)
	if w.Usage == nil {
		return
	}
	if c.heard.usage == nil {
		c.fault("no usage, want %s", asJSON(w.Usage))
		return
	}
	want, got := counts(*w.Usage), counts(*c.heard.usage)
	for name, n := range want {
		if g, ok := got[name]; !ok || g != n {
			c.fault("usage: %s is %v, want %v; all: %s", name, g, n, asJSON(c.heard.usage))
		}
	}
}

// times: held back <= time to the first token <= duration.
func (c *comparer) times(held time.Duration) {
	u := c.heard.usage
	if held == 0 || u == nil || u.TTFTMS == nil || u.Duration == nil {
		return // that a time is missing is for Want.Counted to say
	}
	first := time.Duration(*u.TTFTMS) * time.Millisecond
	all := time.Duration(*u.Duration * float64(time.Second))
	// The first is told in whole milliseconds, which may have been rounded up.
	if first < held || all+time.Millisecond < first {
		c.fault("usage: the first token came after %v, all of it after %v; the model kept it back for %v", first, all, held)
	}
}

func (c *comparer) told(w Want) {
	for _, s := range w.Heard {
		if !strings.Contains(c.r.Heard, s) {
			c.fault("the model was not told %q", short(s))
		}
	}
	for _, s := range w.HeardOnce {
		if n := strings.Count(c.r.Heard, s); n != 1 {
			c.fault("the model was told %q %d times, want once", short(s), n)
		}
	}
	for _, content := range w.HeardFiles {
		if !strings.Contains(c.r.Heard, content) && !heardPath(c.r.Heard, content) {
			c.fault("the model was told neither %q nor the path of a file that holds it", short(content))
		}
	}
	for _, s := range w.Unheard {
		if strings.Contains(c.r.Heard, s) {
			c.fault("the model was told %q", short(s))
		}
	}
}

// counts are the numbers of a usage by name.
func counts(u events.Usage) map[string]float64 {
	var all map[string]any
	_ = json.Unmarshal([]byte(asJSON(u)), &all)
	out := map[string]float64{}
	for name, v := range all {
		if n, ok := v.(float64); ok {
			out[name] = n
		}
	}
	return out
}

func asJSON(v any) string {
	raw, _ := json.Marshal(v)
	return string(raw)
}

// subsequence reports the first of want that does not stand in got after the
// ones before it.
func subsequence(want, got []string) string {
	for _, w := range want {
		i := slices.Index(got, w)
		if i < 0 {
			return w
		}
		got = got[i+1:]
	}
	return ""
}

func short(s string) string {
	if len(s) <= 200 {
		return s
	}
	return fmt.Sprintf("%s… (%d bytes)", s[:200], len(s))
}

func shorts(list []string) (out []string) {
	for _, s := range list[:min(len(list), 10)] {
		out = append(out, short(s))
	}
	return out
}

// sameJSON compares two values whatever their spacing and order of keys.
func sameJSON(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
