package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"

	"innerd/events"
)

// printer shows a run: the agent's text on out, everything else on err.
type printer struct {
	mu         sync.Mutex // prompts on the terminal come from other goroutines
	out, err   *column
	json       bool
	quiet      bool
	dim, reset string
	bold       string

	open   bool // a message is being said
	blocks int  // texts that were said
	usage  *events.Usage
	names  map[string]string // tool_call_id → tool
}

// column is a stream and whether its last line is open. Stdout and stderr
// share one where both are the same terminal.
type column struct {
	w    io.Writer
	tty  bool
	open *bool
	err  error // of the first write that failed
}

func (c *column) write(s string) {
	if s == "" {
		return
	}
	if c.tty {
		s = clean(s)
	}
	if _, err := io.WriteString(c.w, s); err != nil && c.err == nil {
		c.err = err
	}
	*c.open = !strings.HasSuffix(s, "\n")
}

// styled writes s between two escape sequences.
func (c *column) styled(pre, s, post string) {
	if s == "" {
		return
	}
	c.write(pre + s + post)
	*c.open = !strings.HasSuffix(s, "\n")
}

// close ends an open line.
func (c *column) close() {
	if *c.open {
		c.write("\n")
	}
}

// line writes a line of its own.
func (c *column) line(s string) {
	if *c.open {
		s = "\n" + s
	}
	c.write(s + "\n")
}

func newPrinter(a *app, asJSON, quiet bool) *printer {
	p := &printer{json: asJSON, quiet: quiet, names: map[string]string{}}
	outTTY, errTTY := isTerminal(a.out), isTerminal(a.err)
	p.out, p.err = &column{w: a.out, tty: outTTY, open: new(bool)}, &column{w: a.err, tty: errTTY, open: new(bool)}
	if outTTY && errTTY {
		p.err.open = p.out.open
	}
	if errTTY && a.getenv("NO_COLOR") == "" && a.getenv("TERM") != "dumb" {
		p.dim, p.bold, p.reset = styleDim, styleBold, styleReset
	}
	return p
}

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// event shows one event.
func (p *printer) event(ev events.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.json:
		p.jsonLine(ev)
	case p.quiet:
		p.finished(ev.Data)
	default:
		p.show(ev.Data)
	}
}

// jsonLine prints an event as the log has it, with fields this version does
// not know.
func (p *printer) jsonLine(ev events.Event) {
	d := ev.Data
	if ev.Raw != nil {
		d = events.Unknown{Type: ev.Type(), Raw: ev.Raw}
	}
	line, err := events.AppendLine(nil, ev.ID, ev.TS, d)
	if err != nil {
		return
	}
	p.out.write(string(line) + "\n")
}

func (p *printer) finished(d events.Data) {
	switch v := d.(type) {
	case events.Message:
		p.out.line(v.Content)
	case events.Error:
		p.err.line("innerd: " + v.Message)
	}
}

func (p *printer) show(d events.Data) {
	switch v := d.(type) {
	case events.MessageDelta:
		p.text(v.Delta)
	case events.Message:
		p.endText()
	case events.ReasoningDelta:
		p.err.styled(p.dim, v.Delta, p.reset)
	case events.Reasoning:
		p.err.close()
	case events.Discarded:
		p.endText()
		p.note("the agent takes that back: " + v.Reason)
	case events.ToolCall:
		p.call("•", v.Name, v.Input)
	case events.ToolRequest:
		p.names[v.ToolCallID] = v.ToolName
		p.call("→", v.ToolName, v.Arguments)
	case events.ToolResolved:
		p.resolved(v)
	case events.ToolComplete:
		if !v.Success {
			p.note(v.Name + " failed: " + oneLine(v.Result, 200))
		}
	case events.FileChange:
		p.note(v.Kind + " " + v.Path)
	case events.Status:
		p.status(v)
	case events.Usage:
		p.usage = &v
	case events.Error:
		p.err.line("innerd: " + v.Message)
	case events.End:
		p.end(v)
	}
}

func (p *printer) text(s string) {
	if !p.open {
		p.open = true
		p.out.close()
		if p.blocks > 0 {
			p.out.write("\n")
		}
		p.blocks++
	}
	p.out.write(s)
}

func (p *printer) endText() {
	p.open = false
	p.out.close()
}

func (p *printer) call(mark, name string, input json.RawMessage) {
	p.err.line(p.bold + mark + " " + name + p.reset + " " + p.dim + oneLine(compact(input), 400) + p.reset)
}

func (p *printer) resolved(v events.ToolResolved) {
	text := v.Result
	if len(v.Content) > 0 {
		text = fmt.Sprintf("%d parts", len(v.Content))
	}
	head := "← " + p.names[v.ToolCallID]
	switch v.Outcome {
	case events.OutcomeOK:
	case events.OutcomeError:
		head += " failed:"
	default:
		head += " " + v.Outcome
	}
	p.err.line(p.bold + head + p.reset + " " + p.dim + oneLine(text, 400) + p.reset)
}

func (p *printer) status(v events.Status) {
	switch v.State {
	case events.StateRetrying:
		p.note("retrying" + retryDetail(v))
	case events.StateQueued, events.StateCompacting, events.StateStorage, events.StateNotice:
		p.note(strings.TrimSpace(v.State + " " + v.Detail))
	}
}

// retryDetail says what failed and when it is tried again. A detail that says
// nothing is left out.
func retryDetail(v events.Status) string {
	var s string
	if v.DelayMS > 0 {
		s = fmt.Sprintf(" in %.1f s", float64(v.DelayMS)/1000)
	}
	why := v.Detail
	if why == "" || why == "unknown" {
		why = v.ErrorType
	}
	if why != "" && why != "unknown" {
		s += ": " + strings.ReplaceAll(why, "_", " ")
	}
	return s
}

func (p *printer) note(s string) { p.err.line(p.dim + "· " + s + p.reset) }

func (p *printer) end(v events.End) {
	if v.State != events.Completed {
		if tail := strings.TrimSpace(v.StderrTail); tail != "" {
			p.note(tail)
		}
	}
	u := p.usage
	if u == nil {
		u = v.Usage
	}
	if line := usageLine(u); line != "" {
		p.note(line)
	}
}

// lost says why nobody reads the output any more; nil while somebody does.
func (p *printer) lost() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.err
}

// finish closes an open line, however the run ended.
func (p *printer) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.json {
		return
	}
	p.out.close()
	p.err.close()
}

func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}

// oneLine cuts a text to n bytes of one line.
func oneLine(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
