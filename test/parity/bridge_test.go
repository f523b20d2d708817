//go:build linux

package parity_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"innerd/events"
	"innerd/test/server"
)

var bridgeRows = []row{
	{"bridged-1-mib-whole-in-log", bigResult},
	{"host-away-and-back", hostAway},
	{"tool-choice-none", noTools},
	{"tool-call-limit", callLimit},
}

// bigResult: the log has every byte of a result, whatever the model gets.
func bigResult(w *world) {
	k := w.talk(nil)
	p := k.post("Dump it.", tools("dump"), call("dump", obj{}), say("That was much."))
	req := server.Until[events.ToolRequest](p, 1)
	result := strings.Repeat("0123456789abcde\n", 1<<16)
	w.s.Result(req.ToolCallID, obj{"result": result})
	p.Completed()
	log := w.s.Follow(w, p.TaskID(), "0").Whole()
	if got := resolvedWhole(w, log); got != result {
		w.Errorf("the log has %d bytes of the result", len(got))
	}
	if !strings.Contains(k.heard(), "0123456789abcde") {
		w.Error("the model was told nothing of the result")
	}
}

// resolvedWhole is the result of the one call in a log; what is long lies
// beside it.
func resolvedWhole(w *world, log *server.Tape) string {
	for _, line := range log.Lines() {
		var e struct {
			Type string
			Data struct {
				Result, SHA256 string
				Truncated      bool
			}
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			w.Error(err)
		}
		if e.Type != string(events.TypeToolResolved) || !e.Data.Truncated {
			continue
		}
		status, raw := w.s.Call(http.MethodGet, "/tasks/"+log.TaskID()+"/blobs/"+e.Data.SHA256, nil)
		if status != http.StatusOK {
			w.Errorf("status %d: %s", status, raw)
		}
		return string(raw)
	}
	for _, d := range server.Of[events.ToolResolved](log) {
		return d.Result
	}
	return ""
}

// hostAway: a call waits for a host that has hung up; when it is back it reads
// on where it was and answers.
func hostAway(w *world) {
	k := w.talk(nil)
	p := k.post("Look it up.", with(tools("look"), obj{"detach": true}), call("look", obj{"key": "one"}), say("I know it now."))
	req := server.Until[events.ToolRequest](p, 1)
	seen := p.Events()
	p.HangUp()
	back := w.s.Follow(w, p.TaskID(), fmt.Sprint(seen[len(seen)-1].ID))
	w.s.Result(req.ToolCallID, obj{"result": "result-marker"})
	back.Completed()
	if got := back.Events(); got[0].ID != seen[len(seen)-1].ID+1 {
		w.Errorf("the host left after event %d and came back to %d", seen[len(seen)-1].ID, got[0].ID)
	}
	k.result("result-marker")
	if !strings.Contains(back.Text(), "I know it now.") {
		w.Errorf("it said %q", back.Text())
	}
}

// noTools: a host that lends tools and forbids them has none called.
func noTools(w *world) {
	k := w.talk(nil)
	p := k.post("Look it up.", with(tools("look"), obj{"tool_choice": "none"}), say("Without."))
	p.Completed()
	if k.sc == nil {
		return
	}
	for _, r := range k.sc.Requests() {
		if t, ok := offered(r, "look"); ok {
			w.Errorf("the model is offered %q", t.Name)
		}
	}
	k.run("And now?", tools("look"), say("With it."))
	all := k.sc.Requests()
	if _, ok := offered(all[len(all)-1], "look"); !ok {
		w.Error("without the choice the tool is not offered")
	}
}

// callLimit: the call above the limit is not run, and the run is a success.
func callLimit(w *world) {
	k := w.talk(nil)
	p := k.post("Call it.", with(tools("look"), obj{"tool_call_limit": 2}),
		call("look", obj{"n": 1}), shell("echo two", "two"), call("look", obj{"n": 3}), say("Never said."))
	req := server.Until[events.ToolRequest](p, 1)
	w.s.Result(req.ToolCallID, obj{"result": "one"})
	end := p.Completed().End()
	if end.Reason != "tool_call_limit" || strings.Contains(p.Text(), "Never said.") {
		w.Errorf("it ended with %q, having said %q", end.Reason, p.Text())
	}
	if asked, own := server.Of[events.ToolRequest](p), server.Of[events.ToolCall](p); len(asked) != 1 || len(own) != 1 {
		w.Errorf("the host was asked %d times, %d calls of its own", len(asked), len(own))
	}
}

var askRows = []row{{"allow-for-the-conversation", allowAlways}}

// allowAlways: the same call is not asked for again, in the same run and in
// the next; another is.
func allowAlways(w *world) {
	k := w.talk(obj{"permission_mode": "ask"})
	p := k.post("Do it twice.", nil, shell("echo same", "same"), shell("echo same", "same"), shell("echo other", "other"), say("Done."))
	answer := func(n int, kind string) {
		req := server.Until[events.PermissionRequest](p, n)
		i := slices.IndexFunc(req.Options, func(o events.PermissionOption) bool { return o.Kind == kind })
		if i < 0 {
			w.Fatalf("the options are %+v", req.Options)
		}
		w.s.Do(http.MethodPost, "/tasks/"+p.TaskID()+"/requests/"+req.RequestID, obj{"option": req.Options[i].ID}, nil)
	}
	answer(1, events.AllowAlways)
	answer(3, events.AllowOnce)
	p.Completed()
	k.heardBack(p)
	by := deciders(p)
	if !slices.Equal(by, []string{"host", "policy", "host"}) {
		w.Errorf("it was decided by %q", by)
	}
	next := k.run("And once more.", nil, shell("echo same", "same"), say("Done again."))
	if by := deciders(next); !slices.Equal(by, []string{"policy"}) {
		w.Errorf("in the next run it was decided by %q", by)
	}
	if calls := server.Of[events.ToolCall](next); len(calls) != 1 {
		w.Errorf("%d calls in the next run", len(calls))
	}
}

// deciders are who decided over each permission, in order.
func deciders(p *server.Tape) (by []string) {
	for _, d := range server.Of[events.PermissionResolved](p) {
		by = append(by, d.By)
	}
	return by
}
