package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"innerd/events"
	"innerd/host"
)

// terminal asks the user. One question is open at a time.
type terminal struct {
	app     *app
	printer *printer
	turn    sync.Mutex // whose question it is

	once  sync.Once
	lines <-chan string
}

func newTerminal(a *app) *terminal { return &terminal{app: a} }

var errNobody = errors.New("nobody is there to answer: this is not a terminal")

// reader gives the lines that the user types. It is started by the first
// question and ends with the process: a read of a terminal can't be called off.
func (t *terminal) reader() <-chan string {
	t.once.Do(func() {
		var in *os.File
		if isTerminal(t.app.in) {
			in = t.app.in.(*os.File)
		} else if f, err := openTerminal(); err == nil {
			in = f
		} else {
			return
		}
		flushInput(in)
		lines := make(chan string)
		t.lines = lines
		go func() {
			defer close(lines)
			sc := bufio.NewScanner(in)
			for sc.Scan() {
				lines <- sc.Text()
			}
		}()
	})
	return t.lines
}

// ask shows a prompt and waits for a line.
func (t *terminal) ask(ctx context.Context, prompt string) (string, error) {
	lines := t.reader()
	if lines == nil {
		return "", errNobody
	}
	select {
	case <-lines: // was typed before the question
	default:
	}
	t.show(prompt)
	select {
	case line, ok := <-lines:
		if !ok {
			return "", io.EOF
		}
		t.answered()
		return strings.TrimSpace(line), nil
	case <-ctx.Done():
		t.show("(not needed any more)\n")
		return "", context.Cause(ctx)
	}
}

func (t *terminal) show(s string) {
	p := t.printer
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out.close()
	p.err.close()
	p.err.write(s)
}

// answered notes that the user's own return key has ended the line.
func (t *terminal) answered() {
	p := t.printer
	p.mu.Lock()
	defer p.mu.Unlock()
	*p.err.open = false
}

// permission asks whether a tool may run. It is called for one request, in a
// goroutine of the request's own.
func (t *terminal) permission(ctx context.Context, r events.PermissionRequest) (host.Decision, error) {
	t.turn.Lock()
	defer t.turn.Unlock()
	if ctx.Err() != nil {
		return host.Decision{}, context.Cause(ctx)
	}
	byKey, keys := permissionKeys(r)
	prompt := fmt.Sprintf("? %s %s\n  %s > ", oneLine(r.Tool, 100), oneLine(compact(r.Input), 1000), keys)
	for {
		line, err := t.ask(ctx, prompt)
		if err != nil {
			return host.Decision{}, err
		}
		if o, ok := byKey[strings.ToLower(line)]; ok {
			return host.Decision{Option: o.ID, Remember: o.Kind == events.AllowAlways}, nil
		}
		prompt = "  " + keys + " > "
	}
}

// permissionKeys gives each option a letter: y, a and n for the usual three.
func permissionKeys(r events.PermissionRequest) (map[string]events.PermissionOption, string) {
	byKey := map[string]events.PermissionOption{}
	var shown []string
	for i, o := range r.Options {
		k := map[string]string{events.AllowOnce: "y", events.AllowAlways: "a", events.Deny: "n"}[o.Kind]
		if _, taken := byKey[k]; k == "" || taken {
			k = fmt.Sprint(i + 1)
		}
		byKey[k] = o
		shown = append(shown, "["+k+"] "+o.Label)
	}
	if o, ok := byKey["y"]; ok {
		byKey["yes"] = o
	}
	if o, ok := byKey["n"]; ok {
		byKey["no"] = o
	}
	return byKey, strings.Join(shown, "  ")
}

// question asks what the agent wants to know. A line that is JSON of the type
// the schema wants is sent as such, any other as a string.
func (t *terminal) question(ctx context.Context, q events.InputRequired) (json.RawMessage, error) {
	t.turn.Lock()
	defer t.turn.Unlock()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	prompt := "? " + q.Message + "\n  > "
	if words := enumOf(q.Schema); len(words) > 0 {
		prompt = "? " + q.Message + "\n  (" + strings.Join(words, ", ") + ") > "
	}
	line, err := t.ask(ctx, prompt)
	if err != nil {
		return nil, err
	}
	return answerValue(q.Schema, line), nil
}

func enumOf(schema json.RawMessage) []string {
	var s struct {
		Enum []any `json:"enum"`
	}
	_ = json.Unmarshal(schema, &s)
	var words []string
	for _, e := range s.Enum {
		words = append(words, fmt.Sprint(e))
	}
	return words
}

// answerValue makes JSON of a line. An object with one property is filled by a
// line that is not an object itself.
func answerValue(schema json.RawMessage, line string) json.RawMessage {
	var s struct {
		Type       any                        `json:"type"`
		Properties map[string]json.RawMessage `json:"properties"`
	}
	_ = json.Unmarshal(schema, &s)
	text, _ := json.Marshal(line)
	switch s.Type {
	case "object":
		if strings.HasPrefix(line, "{") && json.Valid([]byte(line)) {
			return json.RawMessage(line)
		}
		for name, inner := range s.Properties {
			if len(s.Properties) == 1 {
				raw, _ := json.Marshal(map[string]json.RawMessage{name: answerValue(inner, line)})
				return raw
			}
		}
	case "number", "integer", "boolean", "array":
		if json.Valid([]byte(line)) {
			return json.RawMessage(line)
		}
	}
	return text
}
