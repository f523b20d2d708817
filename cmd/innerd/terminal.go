package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
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

var (
	errNobody = errors.New("nobody is there to answer: this is not a terminal")
	errEOF    = errors.New("the user ended the input without an answer")
)

// there reports whether a user can be asked at all.
func (t *terminal) there() bool {
	if isTerminal(t.app.in) {
		return true
	}
	f, err := openTerminal()
	if err != nil {
		return false
	}
	_ = f.Close()
	return true
}

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
			return "", errEOF
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
