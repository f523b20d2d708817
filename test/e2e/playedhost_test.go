//go:build linux

package e2e_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"innerd/backends/backendtest"
	"innerd/events"
	"innerd/test/fieldhost"
	outside "innerd/test/server"
)

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
	ctx, cancel := context.WithTimeout(k.t.Context(), 3*time.Minute+h.patience())
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
	h.k.s.Do(http.MethodPost, "/tasks/"+taskID+":cancel", map[string]any{"reason": "the case says so"}, nil)
}

// see takes an event of the log: it counts what is open, and answers what the
// field host knows nothing of.
func (h *playedHost) see(taskID string, e events.Event) {
	if on := h.turn.Host.Cancel.On; on != "" && on == e.Type() && !h.canceled {
		h.canceled = true
		h.work.Go(func() {
			if file := h.turn.Host.Cancel.Began; file != "" && h.k.backend != "simulate" { // whose tools are no programs
				outside.Eventually(h.k.t, "the command has made "+file, func() bool { return size(filepath.Join(h.k.s.Dir, file)) > 0 })
			}
			h.cancel(taskID)
		})
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
			h.k.s.Do(http.MethodPost, "/tasks/"+taskID+"/requests/"+d.RequestID, map[string]any{"option": d.Options[option].ID, "message": a.Message}, nil)
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
	h.k.s.Do(http.MethodPost, "/tools/"+c.ID+"/result", result, &got)
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
	h.k.s.Do(http.MethodPost, "/tasks/"+q.TaskID+":reply", map[string]any{"text": text, "request_id": q.RequestID}, nil)
}
