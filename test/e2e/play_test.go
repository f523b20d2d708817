//go:build linux

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/events"
	"innerd/test/fieldhost"
)

// seat is what one conversation of a case needs to have its agent do a script.
type seat interface {
	arrange(steps []backendtest.Step) (metadata map[string]any)
	heard() string               // all that the model was told when it was last asked
	asked(context.Context) error // returns when the model was asked since the last arrange
}

// talk is one conversation of a case, as the field host has it: of each run it
// keeps the last message, and sends all of it with the next one.
type talk struct {
	t         testing.TB
	s         *server
	backend   string
	contextID string
	seat      seat
	messages  []any
}

func message(role, text string, attach ...events.Part) map[string]any {
	m := map[string]any{"role": role, "content": text}
	var images []any
	for i, p := range attach {
		images = append(images, map[string]any{"id": fmt.Sprint("image-", i), "content": p.Data, "mime_type": p.MimeType})
	}
	if images != nil {
		m["images"] = images
	}
	return m
}

// play plays the turns in order, up to the first that goes wrong.
func (k *talk) play(turns []backendtest.Turn) {
	for i, turn := range turns {
		if !k.turn(fmt.Sprintf("%s, turn %d", k.contextID, i+1), turn) {
			return
		}
	}
}

// before does to the agent what a turn begins with.
func (k *talk) before(b backendtest.Before) {
	switch b {
	case backendtest.BeforeClose:
		conv, ok := k.s.conversation(k.contextID)
		if !ok {
			k.t.Errorf("there is no conversation %q", k.contextID)
		}
		k.s.do(http.MethodPost, "/conversations/"+conv.ID+":close", nil, nil)
	case backendtest.BeforeRestart:
		if code := k.s.stop(); code != 0 {
			k.t.Errorf("the exit code is %d", code)
		}
		k.s.start()
	case backendtest.BeforeKill:
		if err := k.s.killAgent(); err != nil {
			k.t.Error(err)
		}
		eventually(k.t, "the conversation is cold", func() bool { return k.state() == "cold" })
	}
}

func (k *talk) state() string {
	conv, _ := k.s.conversation(k.contextID)
	return conv.State
}

// request is what the field host sends, and what the case asks for beside it.
func (k *talk) request(turn backendtest.Turn) body {
	meta := k.seat.arrange(turn.Steps)
	if meta == nil {
		meta = map[string]any{}
	}
	meta["backend"] = k.backend
	var schemas []any
	for _, t := range backendtest.Tools(turn.Steps) {
		schemas = append(schemas, map[string]any{"name": t.Name, "description": t.Description, "parameters": t.Schema})
	}
	meta["native_tool_schemas"], meta["tool_count"], meta["source"] = schemas, len(schemas), "chat"
	if turn.System != "" {
		meta["system_message"] = turn.System
	}
	meta["permission_mode"] = permission(turn)
	if turn.Interactive {
		meta["interactive"] = true
	}
	if turn.History != "" {
		k.messages = append(k.messages, message("user", turn.History), message("assistant", "I see."))
	}
	k.messages = append(k.messages, message("user", turn.Prompt, turn.Attach...))
	return body{"context_id": k.contextID, "messages": k.messages, "metadata": meta}
}

// permission is the turn's mode. Where a case leaves it open whether the host
// is asked, and has it silent, it is.
func permission(turn backendtest.Turn) string {
	asks := func(s backendtest.Step) bool { return s.Permission != nil }
	switch {
	case turn.Permission != "":
		return turn.Permission
	case slices.ContainsFunc(turn.Steps, asks):
		return backends.PermissionAsk
	}
	return backends.PermissionAuto
}

func (k *talk) turn(name string, turn backendtest.Turn) bool {
	k.before(turn.Before)
	processes := k.s.marked()
	h := newPlayedHost(k, turn)
	got, post, full := h.run(k.request(turn))
	if got == nil {
		return false
	}
	failed := k.t.Failed()
	post.whole(k.t)
	full.whole(k.t)
	journal := k.s.journal(full.taskID())
	k.s.equal(journal, true, full)
	k.s.equal(journal, false, post)
	checkOrder(k.t, full.events())
	checkBasic(k.t, post, full, permission(turn) == backends.PermissionAsk)
	checkFieldHost(k.t, got, full)
	for _, f := range turn.Want.Check(k.result(full), turn.Host.Cancel.Early || turn.Host.Cancel.On != "") {
		k.t.Errorf("%s: %s", name, f)
	}
	if w := turn.Want; w.Warm && (k.state() != "idle" || len(processes) > 0 && !slices.Equal(processes, k.s.marked())) {
		k.t.Errorf("%s: not warm: %s, processes %v, then %v", name, k.state(), processes, k.s.marked())
	} else if w.Gone {
		eventually(k.t, "the conversation's agent is gone", func() bool { return k.state() == "cold" })
	}
	if !got.Failed && got.Text != "" {
		k.messages = append(k.messages, message("assistant", got.Text))
	}
	if !failed && k.t.Failed() {
		k.t.Logf("%s: the log:\n%s\nthe host has %+v", name, full, *got)
	}
	return !k.t.Failed()
}

// result is the run as the suite wants to see it.
func (k *talk) result(full *tape) backendtest.Result {
	r := backendtest.Result{Events: full.events(), Heard: k.seat.heard()}
	end := full.end()
	if end == nil {
		return r
	}
	r.Completed, r.Canceled, r.Reason = end.State == events.Completed, end.State == events.Canceled, end.Reason
	if f := full.failure(); f != nil && !r.Canceled {
		r.ErrorType = f.ErrorType
	}
	if end.ExitCode != nil || end.Signal != "" {
		r.Exit = &backends.Exit{Signal: end.Signal}
		if end.ExitCode != nil {
			r.Exit.Code = *end.ExitCode
		}
	}
	return r
}

// playedHost does what the host of a case does. Bridged tools and questions
// are the field host's, one after another; permissions, which it does not
// know, are answered by whoever reads all events.
type playedHost struct {
	k    *talk
	turn backendtest.Turn
	ctx  context.Context // of the turn

	mu       sync.Mutex
	replies  []backendtest.Reply
	full     *tape
	attached chan struct{} // closed when full reads
	over     chan struct{} // closed when full is over
	open     int
	together int
	more     chan struct{} // closed and replaced when together grows
	work     sync.WaitGroup
	canceled bool
}

func newPlayedHost(k *talk, turn backendtest.Turn) *playedHost {
	return &playedHost{
		k: k, turn: turn, replies: slices.Clone(turn.Host.Replies),
		attached: make(chan struct{}), over: make(chan struct{}), more: make(chan struct{}),
	}
}

// patience is how long the case itself has the host wait.
func (h *playedHost) patience() (all time.Duration) {
	for _, r := range h.turn.Host.Replies {
		all += r.After
	}
	return all
}

// run posts the turn and reads it to its end in both ways.
func (h *playedHost) run(b body) (got *fieldhost.Result, post, full *tape) {
	k := h.k
	ctx, cancel := context.WithTimeout(k.t.Context(), time.Minute+h.patience())
	defer cancel()
	h.ctx = ctx
	resp, err := k.s.stream(ctx, http.MethodPost, "/message:stream", b)
	if err != nil {
		k.t.Error(err)
		return nil, nil, nil
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	if resp.StatusCode != http.StatusOK {
		answer, _ := io.ReadAll(resp.Body) // for the message
		k.t.Errorf("status %d: %s", resp.StatusCode, answer)
		return nil, nil, nil
	}
	pr, pw := io.Pipe()
	post = newTape("the POST", func(e events.Event) {
		if d, ok := e.Data.(events.TaskID); ok {
			h.attach(d.TaskID)
		}
	})
	h.work.Go(func() { post.read(pr) })
	tee := io.TeeReader(resp.Body, pw)
	got, err = fieldhost.Read(tee, fieldhost.Handlers{Call: h.tool, Question: h.question})
	if err == nil {
		_, err = io.Copy(io.Discard, tee) // it stops at an error; the tape shall have all
	}
	_ = pw.CloseWithError(err) // nil is the end of the body
	if err != nil {
		k.t.Errorf("the POST broke: %v", err)
	}
	_ = post.ended(ctx) // how is looked at later
	select {
	case <-h.attached:
	default:
		k.t.Error("no run was started")
		return nil, nil, nil
	}
	if err := h.full.ended(ctx); err != nil {
		k.t.Errorf("%v\n%s", err, h.full)
	}
	h.work.Wait()
	return got, post, h.full
}

// attach has a second reader take all events of the run.
func (h *playedHost) attach(taskID string) {
	h.full = newTape("the reader of all", func(e events.Event) { h.see(taskID, e) })
	close(h.attached)
	h.work.Go(func() {
		defer close(h.over)
		resp, err := h.k.s.stream(h.ctx, http.MethodGet, "/tasks/"+taskID+"/events", nil)
		if err != nil {
			h.full.read(io.MultiReader(errReader{err}))
			return
		}
		defer resp.Body.Close() //nolint:errcheck // only read
		h.full.read(resp.Body)
	})
	if h.turn.Host.Cancel.Early {
		h.work.Go(func() {
			if err := h.k.seat.asked(h.ctx); err != nil {
				h.k.t.Error(err)
			}
			h.cancel(taskID)
		})
	}
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

func (h *playedHost) cancel(taskID string) {
	h.k.s.do(http.MethodPost, "/tasks/"+taskID+":cancel", map[string]any{"reason": "the case says so"}, nil)
}

// see takes an event of the log: it counts what is open, and answers what the
// field host knows nothing of.
func (h *playedHost) see(taskID string, e events.Event) {
	if on := h.turn.Host.Cancel.On; on != "" && on == e.Type() && !h.canceled {
		h.canceled = true
		h.work.Go(func() { h.cancel(taskID) })
	}
	switch d := e.Data.(type) {
	case events.ToolRequest:
		h.opened(1)
	case events.PermissionRequest:
		h.opened(1)
		h.reply(events.KindPermission, d.Tool, func(a events.Answer) {
			kind := events.AllowOnce
			if a.Outcome == events.OutcomeDenied {
				kind = events.Deny
			}
			option := slices.IndexFunc(d.Options, func(o events.PermissionOption) bool { return o.Kind == kind })
			h.k.s.do(http.MethodPost, "/tasks/"+taskID+"/requests/"+d.RequestID, map[string]any{"option": d.Options[option].ID, "message": a.Message}, nil)
		})
	case events.InputRequired:
		h.opened(1)
	case events.ToolResolved, events.PermissionResolved, events.InputResolved:
		h.opened(-1)
	}
}

func (h *playedHost) opened(by int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open += by; h.open > h.together {
		h.together = h.open
		close(h.more)
		h.more = make(chan struct{})
	}
}

// take finds the reply to a request.
func (h *playedHost) take(kind events.RequestKind, tool string) (backendtest.Reply, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, r := range h.replies {
		if r.Kind == kind && (r.Tool == "" || r.Tool == tool || kind == events.KindPermission) {
			h.replies = slices.Delete(h.replies, i, i+1)
			return r, true
		}
	}
	return backendtest.Reply{}, false
}

func (h *playedHost) reply(kind events.RequestKind, tool string, answer func(events.Answer)) {
	if r, ok := h.take(kind, tool); ok {
		h.work.Go(func() {
			if h.due(r) {
				answer(r.Answer)
			}
		})
	}
}

// due waits until a reply may be given, and reports whether the run still is.
func (h *playedHost) due(r backendtest.Reply) bool {
	for {
		h.mu.Lock()
		enough, more := h.together >= r.Together, h.more
		h.mu.Unlock()
		if enough {
			break
		}
		select {
		case <-more:
		case <-h.over:
			return false
		case <-h.ctx.Done():
			return false
		}
	}
	timer := time.NewTimer(r.After)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-h.over:
	case <-h.ctx.Done():
	}
	return false
}

// tool runs a bridged tool as the field host does: reading nothing meanwhile.
func (h *playedHost) tool(c fieldhost.Call) {
	r, ok := h.take(events.KindTool, c.Name)
	if !ok { // a tool that takes until the run is over
		select {
		case <-h.over:
		case <-h.ctx.Done():
		}
		return
	}
	if !h.due(r) {
		return
	}
	result := map[string]any{"result": r.Answer.Result, "metadata": map[string]any{"tool_name": c.Name}}
	if r.Answer.IsError {
		result["is_error"] = true
	}
	if len(r.Answer.Content) > 0 {
		result["content"] = r.Answer.Content
	}
	var got struct{ Status string }
	h.k.s.do(http.MethodPost, "/tools/"+c.ID+"/result", result, &got)
	if got.Status != "ok" {
		h.k.t.Errorf("the result of %s: %+v", c.Name, got)
	}
}

// question has the user answer in words.
func (h *playedHost) question(q fieldhost.Question) {
	r, ok := h.take(events.KindQuestion, "")
	if !ok || !h.due(r) {
		return
	}
	var text string
	if err := json.Unmarshal(r.Answer.Value, &text); err != nil {
		h.k.t.Errorf("the case's answer is no text: %v", err)
	}
	h.k.s.do(http.MethodPost, "/tasks/"+q.TaskID+":reply", map[string]any{"text": text, "request_id": q.RequestID}, nil)
}

// checkBasic: a POST that asks for nothing gets the basic types, and all of
// them; one that wants to be asked gets what it is asked.
func checkBasic(t testing.TB, post, full *tape, ask bool) {
	t.Helper()
	var want []int64
	for _, e := range full.events() {
		if typ := e.Type(); typ.Basic() || ask && (typ == events.TypePermissionRequest || typ == events.TypePermissionResolved) {
			want = append(want, e.ID)
		}
	}
	if !slices.Equal(want, post.ids) {
		t.Errorf("the POST got the events %d, not %d", post.ids, want)
	}
}

// checkFieldHost holds what the field host ends up with against the log.
func checkFieldHost(t testing.TB, got *fieldhost.Result, full *tape) {
	t.Helper()
	var text string
	var reasoning, native []string
	var calls []fieldhost.Call
	usages, discarded := 0, false
	for _, e := range full.events() {
		switch d := e.Data.(type) {
		case events.Message:
			text = d.Content
		case events.Reasoning:
			reasoning = append(reasoning, d.Content)
		case events.ToolCall:
			native = append(native, d.Name)
		case events.ToolRequest:
			calls = append(calls, fieldhost.Call{ID: d.ToolCallID, Name: d.ToolName, Arguments: d.Arguments})
		case events.Usage:
			usages++
		case events.Discarded:
			discarded = true
		}
	}
	end, failure := full.end(), full.failure()
	switch {
	case end == nil:
		return
	case got.Failed == (end.State == events.Completed):
		t.Errorf("the run ended as %s, but for the host failed is %v: %s", end.State, got.Failed, got.Why)
	case failure != nil && got.Why != failure.Message:
		t.Errorf("the host says %q, the error is %q", got.Why, failure.Message)
	}
	if got.Text != text && !discarded {
		t.Errorf("the host's text is %.200q, the last message %.200q", got.Text, text)
	}
	if !slices.Equal(got.Reasoning, reasoning) && !discarded {
		t.Errorf("the host's reasoning is %.200q, the log's %.200q", got.Reasoning, reasoning)
	}
	if !slices.Equal(got.Native, native) || len(got.Usage) != usages || got.TaskID != full.taskID() || got.Ignored > 0 {
		t.Errorf("the host has tools %v, %d usages, id %q, ignored %d lines; the log %v, %d", got.Native, len(got.Usage), got.TaskID, got.Ignored, native, usages)
	}
	if a, b := asJSON(got.Calls), asJSON(calls); a != b {
		t.Errorf("the host ran %s, it was asked for %s", a, b)
	}
}

func asJSON(v any) string {
	raw, _ := json.Marshal(v) // for comparisons of plain values
	return string(raw)
}
