//go:build linux

package hosts_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"innerd/adapter/api"
	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/events"
	"innerd/host"
	"innerd/test/server"
)

// talk is one conversation of a case, as the field host has it: of each run it
// keeps the last message, and sends all of it with the next one.
type talk struct {
	t        testing.TB
	s        *server.Server
	r        rig
	context  string
	seat     seat
	host     *fieldHost
	client   *host.Client
	messages []any
	failures int  // in a row, as the host's breaker counts
	fresh    bool // the next run begins with a new breaker
}

// during has a part of the test answer for what goes wrong.
func (k *talk) during(t testing.TB) {
	k.t, k.host.t, k.s = t, t, k.s.For(t)
	if m, ok := k.seat.(*modelSeat); ok {
		m.t, m.s = t, k.s
	}
}

func newTalk(t testing.TB, s *server.Server, r rig, contextID string) *talk {
	return &talk{
		t: t, s: s, r: r, context: contextID, seat: r.seat(t, s),
		host: newFieldHost(t, s, s.Key()), client: newClient(t, s),
	}
}

// play plays the turns in order, up to the first that goes wrong.
func (k *talk) play(turns []backendtest.Turn) {
	for i, turn := range turns {
		if k.turn(turn); k.t.Failed() {
			k.t.Logf("that was turn %d", i+1)
			return
		}
	}
}

// before does to the agent what a turn begins with.
func (k *talk) before(b backendtest.Before) {
	switch b {
	case backendtest.BeforeClose:
		conv, ok := k.s.Conversation(k.context)
		if !ok {
			k.t.Errorf("there is no conversation %q", k.context)
		}
		k.s.Do(http.MethodPost, "/conversations/"+conv.ID+":close", nil, nil)
	case backendtest.BeforeRestart:
		k.s.Stop()
		k.s.Start()
		k.host.moved(k.s.URL())
		k.client = newClient(k.t, k.s)
	case backendtest.BeforeKill:
		if err := k.s.KillAgents(); err != nil {
			k.t.Error(err)
		}
		server.Eventually(k.t, "the conversation is cold", func() bool {
			conv, _ := k.s.Conversation(k.context)
			return conv.State == "cold"
		})
	}
}

// request is what the field host sends, and what the case asks for beside it.
func (k *talk) request(turn backendtest.Turn) map[string]any {
	meta := k.seat.arrange(turn.Steps)
	meta["backend"] = k.r.backend
	var schemas []any
	for _, t := range backendtest.Tools(turn.Steps) {
		schemas = append(schemas, map[string]any{"name": t.Name, "description": t.Description, "parameters": t.Schema})
	}
	meta["native_tool_schemas"], meta["tool_count"], meta["source"] = schemas, len(schemas), "chat"
	if turn.System != "" {
		meta["system_message"] = turn.System
	}
	meta["permission_mode"] = turn.Permission
	if turn.Permission == "" {
		meta["permission_mode"] = backends.PermissionAuto
		if slices.ContainsFunc(turn.Steps, func(s backendtest.Step) bool { return s.Permission != nil }) {
			meta["permission_mode"] = backends.PermissionAsk
		}
	}
	if turn.Interactive {
		meta["interactive"] = true
	}
	if turn.History != "" {
		k.messages = append(k.messages, message("user", turn.History), message("assistant", "I see."))
	}
	k.messages = append(k.messages, message("user", turn.Prompt, turn.Attach...))
	return map[string]any{"context_id": k.context, "messages": k.messages, "metadata": meta}
}

func (k *talk) turn(turn backendtest.Turn) {
	k.before(turn.Before)
	p := newPlayed(k, turn)
	defer p.stop()
	got, breaker := k.host.run(order{Request: k.request(turn), Fresh: k.fresh}, p)
	k.fresh = false
	log := p.log()
	check(k.t, got, log)
	if got.Failed {
		k.failures++
	} else {
		k.failures = 0
	}
	if want := (breakerState{"closed", k.failures, 0}); breaker != want {
		k.t.Errorf("the host's breaker is %+v, not %+v", breaker, want)
	}
	if !got.Failed && got.Text != "" {
		k.messages = append(k.messages, message("assistant", got.Text))
	}
	if k.t.Failed() {
		for _, e := range log[:min(len(log), 60)] {
			k.t.Logf("%d %s %.300s", e.ID, e.Type(), e.Raw)
		}
		k.t.Logf("the host has %.2000s", asJSON(got))
	}
}

// played does what the host of a case does. Tools and questions are the field
// host's, one after another; permissions and cancels, which are not, are done
// by whoever reads the whole log.
type played struct {
	k    *talk
	turn backendtest.Turn
	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup
	over chan struct{} // closed when the log is at its end

	mu       sync.Mutex
	replies  []backendtest.Reply
	all      []events.Event
	open     int
	together int
	more     chan struct{} // closed and replaced when together grows
	canceled bool
}

func newPlayed(k *talk, turn backendtest.Turn) *played {
	p := &played{k: k, turn: turn, replies: slices.Clone(turn.Host.Replies), over: make(chan struct{}), more: make(chan struct{})}
	p.ctx, p.stop = context.WithTimeout(k.t.Context(), 5*time.Minute)
	return p
}

// log is the whole log, once it is there.
func (p *played) log() []events.Event {
	p.work.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.all) == 0 {
		p.k.t.Error("no run was started")
	}
	return p.all
}

func (p *played) started(taskID string) {
	p.work.Go(func() { // ends with the run
		defer close(p.over)
		for ev, err := range p.k.client.Follow(p.ctx, taskID, 0) {
			if err != nil {
				p.k.t.Errorf("the log of %s: %v", taskID, err)
				return
			}
			if ev.ID != 0 {
				p.see(taskID, ev)
			}
		}
	})
	if p.turn.Host.Cancel.Early {
		p.work.Go(func() {
			if err := p.k.seat.asked(p.ctx); err != nil {
				p.k.t.Error(err)
			}
			p.cancel(taskID)
		})
	}
}

func (p *played) cancel(taskID string) {
	if _, err := p.k.client.Cancel(p.ctx, taskID, "the case says so"); err != nil {
		p.k.t.Error(err)
	}
}

// see takes an event of the log.
func (p *played) see(taskID string, e events.Event) {
	p.mu.Lock()
	p.all = append(p.all, e)
	p.mu.Unlock()
	if on := p.turn.Host.Cancel.On; on != "" && on == e.Type() && !p.canceled {
		p.canceled = true
		p.work.Go(func() {
			if file := p.turn.Host.Cancel.Began; file != "" && p.k.r.lacks[backendtest.NeedProcess] == "" {
				server.Eventually(p.k.t, "the command has made "+file, func() bool { return there(filepath.Join(p.k.s.Dir, file)) })
			}
			p.cancel(taskID)
		})
	}
	switch d := e.Data.(type) {
	case events.ToolRequest, events.InputRequired:
		p.opened(1)
	case events.PermissionRequest:
		p.opened(1)
		if r, ok := p.take(events.KindPermission, ""); ok {
			p.work.Go(func() { p.decide(taskID, d, r) })
		}
	case events.ToolResolved, events.PermissionResolved, events.InputResolved:
		p.opened(-1)
	}
}

func there(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (p *played) decide(taskID string, d events.PermissionRequest, r backendtest.Reply) {
	if !p.due(r) {
		return
	}
	kind := events.AllowOnce
	if r.Answer.Outcome == events.OutcomeDenied {
		kind = events.Deny
	}
	i := slices.IndexFunc(d.Options, func(o events.PermissionOption) bool { return o.Kind == kind })
	if err := p.k.client.AnswerRequest(p.ctx, taskID, d.RequestID, api.Answer{Option: d.Options[i].ID, Message: r.Answer.Message}); err != nil {
		p.k.t.Error(err)
	}
}

func (p *played) opened(by int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open += by; p.open > p.together {
		p.together = p.open
		close(p.more)
		p.more = make(chan struct{})
	}
}

// take finds the reply to a request.
func (p *played) take(kind events.RequestKind, tool string) (backendtest.Reply, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, r := range p.replies {
		if r.Kind == kind && (r.Tool == "" || r.Tool == tool || kind == events.KindPermission) {
			p.replies = slices.Delete(p.replies, i, i+1)
			return r, true
		}
	}
	return backendtest.Reply{}, false
}

// due waits until a reply may be given, and reports whether the run still is.
func (p *played) due(r backendtest.Reply) bool {
	for {
		p.mu.Lock()
		enough, more := p.together >= r.Together, p.more
		p.mu.Unlock()
		if enough {
			break
		}
		select {
		case <-more:
		case <-p.over:
			return false
		case <-p.ctx.Done():
			return false
		}
	}
	timer := time.NewTimer(r.After)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-p.over:
	case <-p.ctx.Done():
	}
	return false
}

// call answers a bridged call; one that no reply fits takes until the run is over.
func (p *played) call(tool string) any {
	r, ok := p.take(events.KindTool, tool)
	if !ok {
		select {
		case <-p.over:
		case <-p.ctx.Done():
		}
		return nil
	}
	if !p.due(r) {
		return nil
	}
	result := map[string]any{"result": r.Answer.Result}
	if r.Answer.IsError {
		result["is_error"] = true
	}
	if len(r.Answer.Content) > 0 {
		result["content"] = r.Answer.Content
	}
	return result
}

// question has the user answer in words.
func (p *played) question() any {
	r, ok := p.take(events.KindQuestion, "")
	if !ok || !p.due(r) {
		return nil
	}
	var text string
	if err := json.Unmarshal(r.Answer.Value, &text); err != nil {
		p.k.t.Error(fmt.Errorf("the case's answer is no text: %w", err))
	}
	return map[string]any{"text": text}
}
