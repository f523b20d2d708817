package backendtest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"innerd/backends"
)

// reuse keeps conversations, and the agents in them, from one case to the next:
// a start costs an agent's process more than a case does. What a case proves in
// a conversation that has gone on for a while it proves of one that is new.
type reuse struct {
	t    *testing.T // of all cases: what is kept outlives the case that it began with
	mu   sync.Mutex
	idle []*player
}

// plain reports whether a case leaves its conversation as it was, but for what
// was said.
func (c Case) plain() bool {
	if len(c.Turns) != 1 || len(c.Beside) > 0 || c.Long || c.own() {
		return false
	}
	t := c.Turns[0]
	spoils := c.Uses(func(s Step) bool {
		return s.Error != nil || s.Stall || s.Empty || s.Cut != nil || s.Refused || s.Full || s.Compact != nil || s.Background != nil ||
			s.Flood != nil || s.Native != nil
	})
	all := c.text()
	const large = 1 << 14 // bytes of a case, which the model is told again with each later one
	return !spoils && fmt.Sprint(t.Set) == fmt.Sprint(backends.Settings{}) && len(all) < large && !strings.Contains(all, InClash) && !strings.Contains(all, InAdded) &&
		t.History == "" && t.System == "" && !t.Interactive && len(t.Files) == 0 && len(t.Tools) == 0 && t.Compact == nil &&
		!t.Host.Cancel.some() && !t.Host.Panics && t.Want.Error == "" && !t.Want.Gone && len(t.Want.Unheard)+len(t.Want.HeardOnce) == 0 && t.Want.Reason == ""
}

// text is all of a case.
func (c Case) text() string {
	raw, err := json.Marshal(c)
	if err != nil {
		panic("backendtest: " + err.Error()) // a case with arguments that are no JSON
	}
	return string(raw)
}

// knows reports whether something that the model must be told in a case may
// have been told in a case before, which would prove nothing.
func (p *player) knows(c Case) bool {
	before := p.cases.String()
	for _, t := range c.Turns {
		for _, s := range slices.Concat(t.Want.Heard, t.Want.HeardFiles) {
			raw, _ := json.Marshal(s) // a string: cannot fail
			if strings.Contains(before, strings.Trim(string(raw), `"`)) || strings.Contains(p.told.String(), s) {
				return true
			}
		}
	}
	return false
}

// take gives a conversation that is kept and may be used for the case, or
// begins one.
func (r *reuse) take(t testing.TB, s *shared, c Case) *player {
	r.mu.Lock()
	defer r.mu.Unlock()
	var p *player
	if i := slices.IndexFunc(r.idle, func(p *player) bool { return !p.knows(c) }); i >= 0 {
		p = r.idle[i]
		r.idle = slices.Delete(r.idle, i, i+1)
	} else {
		p = newPlayer(r.t, s, c, c.Name)
		r.t.Cleanup(func() { p.t = r.t; p.close() })
	}
	p.t, p.name = t, c.Name
	p.cases.WriteString(c.text())
	return p
}

// keep keeps a conversation, unless the case has failed in it.
func (r *reuse) keep(p *player) {
	if p.t.Failed() || p.conv == nil || isDone(p.conv) {
		p.close()
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.idle = append(r.idle, p)
}
