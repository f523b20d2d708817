package backendtest

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"innerd/backends"
	"innerd/events"
)

// ready opens the conversation unless it is open, with its session.
func (p *player) ready(name string) bool {
	if p.conv != nil && !isDone(p.conv) {
		return true
	}
	if p.conv != nil && !p.end(name) {
		return false
	}
	cfg := p.seat.Config()
	if p.loggedOut {
		cfg.Credential = nil
	}
	cfg.ID, cfg.Dir, cfg.Grace, cfg.Session = p.id, p.dir, p.shared.rig.grace(), p.saved()
	if p.added != "" {
		cfg.AddDirs = []string{p.added}
	}
	seatSave := cfg.Save
	cfg.Save = func(s backends.Session) error {
		p.save(s)
		if seatSave == nil {
			return nil
		}
		return seatSave(s)
	}
	cfg.Stray = p.stray
	ctx, cancel := context.WithTimeout(p.t.Context(), 30*time.Second)
	defer cancel()
	conv, err := p.shared.backend.Open(ctx, cfg)
	var failed *backends.Error
	if p.loggedOut && errors.As(err, &failed) && failed.Type == events.ErrAuth {
		return false // as good as a turn that ends so
	}
	if err != nil {
		p.t.Errorf("%s: Open with session %q: %v", name, cfg.Session.ID, err)
		return false
	}
	p.conv = conv
	return true
}

func isDone(c backends.Conversation) bool {
	select {
	case <-c.Done():
		return true
	default:
		return false
	}
}

func (p *player) save(s backends.Session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.session = s
}

// stray takes what the agent says outside a run.
func (p *player) stray(e events.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.Data != nil {
		p.strays = append(p.strays, e)
	}
}

// takeStrays are the strays since it was last called.
func (p *player) takeStrays() []events.Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.strays
	p.strays = nil
	return out
}

func (p *player) saved() backends.Session {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.session
}

// before does to the agent what a turn begins with.
func (p *player) before(name string, b Before) bool {
	if p.conv == nil {
		return true
	}
	switch b {
	case BeforeClose:
		return p.end(name)
	case BeforeRestart:
		ok := p.end(name)
		p.shared.restart()
		return ok
	case BeforeCopy:
		ok := p.end(name)
		p.shared.copy()
		return ok
	case BeforeKill:
		return p.kill(name)
	}
	return true
}

func (p *player) kill(name string) bool {
	k, ok := p.seat.(Killer)
	if !ok {
		p.t.Errorf("%s: the rig does not say that it lacks %s, but its seat is no Killer", name, NeedProcess)
		return false
	}
	if err := k.Kill(); err != nil {
		p.t.Errorf("%s: Kill: %v", name, err)
		return false
	}
	select {
	case <-p.conv.Done():
		return true
	case <-time.After(soon):
		p.t.Errorf("%s: the process is dead, but Done is not closed", name)
		return false
	}
}

// end closes the conversation, which must be done then.
func (p *player) end(name string) bool {
	conv := p.conv
	p.conv = nil
	// The test's own context is canceled before its cleanups, which end what is kept.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.t.Context()), p.shared.rig.grace()+time.Minute)
	defer cancel()
	if err := conv.Close(ctx); err != nil {
		p.t.Errorf("%s: Conversation.Close: %v", name, err)
		return false
	}
	if !isDone(conv) {
		p.t.Errorf("%s: Done is not closed after Close", name)
		return false
	}
	return true
}

// close ends what is left of the conversation.
func (p *player) close() {
	if p.conv != nil {
		p.end("conversation " + p.name)
	}
	for _, turn := range p.played {
		for _, late := range turn.rec.Faults()[turn.faults:] {
			p.t.Errorf("%s: later: %s", turn.name, late)
		}
	}
	p.played = nil
}

// goroutines are the stacks of all goroutines, by their first line's number.
func goroutines() map[string]string {
	buf := make([]byte, 1<<20)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	out := map[string]string{}
	for stack := range strings.SplitSeq(string(buf), "\n\n") {
		id, _, _ := strings.Cut(stack, " [")
		out[id] = stack
	}
	return out
}

// checkLeft looks for goroutines of backends that a case left. Those of the
// rig, its model server and its tests are its own affair.
func checkLeft(t testing.TB, before map[string]string, keeps []string) {
	var left []string
	for end := time.Now().Add(fadesIn); ; time.Sleep(10 * time.Millisecond) {
		left = left[:0]
		for id, stack := range goroutines() {
			if _, old := before[id]; !old && ofBackend(stack, keeps) {
				left = append(left, stack)
			}
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			break
		}
	}
	t.Errorf("%d goroutines were left:\n%s", len(left), strings.Join(left, "\n\n"))
}

func ofBackend(stack string, keeps []string) bool {
	if slices.ContainsFunc(keeps, func(k string) bool { return strings.Contains(stack, k) }) {
		return false
	}
	for line := range strings.SplitSeq(stack, "\n") {
		name, ok := strings.CutPrefix(line, "created by ")
		if !ok {
			name = line
		}
		if strings.HasPrefix(name, "innerd/backends/") && !strings.HasPrefix(name, "innerd/backends/backendtest") &&
			!strings.Contains(strings.SplitN(name, "(", 2)[0], "_test.") {
			return true
		}
	}
	return false
}
