//go:build linux

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/events"
	"innerd/test/fieldhost"
	outside "innerd/test/server"
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
	shared    bool // with other cases: processes are not its own
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
		conv, ok := k.s.Conversation(k.contextID)
		if !ok {
			k.t.Errorf("there is no conversation %q", k.contextID)
		}
		k.s.Do(http.MethodPost, "/conversations/"+conv.ID+":close", nil, nil)
	case backendtest.BeforeRestart:
		k.s.For(k.t).Stop()
		k.s.Start()
	case backendtest.BeforeKill:
		if err := k.s.killAgent(); err != nil {
			k.t.Error(err)
		}
		outside.Eventually(k.t, "the conversation is cold", func() bool { return k.state() == "cold" })
	}
}

func (k *talk) state() string {
	conv, _ := k.s.Conversation(k.contextID)
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
	processes := k.s.Conversing()
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
	if w := turn.Want; w.Warm && (k.state() != "idle" || !k.shared && len(processes) > 0 && !slices.Equal(processes, k.s.Conversing())) {
		k.t.Errorf("%s: not warm: %s, processes %v, then %v", name, k.state(), processes, k.s.Conversing())
	} else if w.Gone {
		outside.Eventually(k.t, "the conversation's agent is gone", func() bool { return k.state() == "cold" })
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
