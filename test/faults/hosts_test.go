//go:build linux

package faults_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"innerd/events"
	"innerd/test/ledger"
	"innerd/test/server"
)

// otherKey is that of a host beside the one of the tests.
const otherKey = "dummy-key-of-another-host"

// withOther gives the server a second host.
func (r *rig) withOther() *rig {
	r.T.Helper()
	path := filepath.Join(r.Home, "keys")
	if err := os.WriteFile(path, []byte("other:"+otherKey+"\n"), 0o600); err != nil {
		r.T.Fatal(err)
	}
	r.Args = append(r.Args, "--api-key-file", path)
	return r
}

// as makes a call with a key of its own.
func (r *rig) as(t testing.TB, key, path string, body any) (status int, answer string) {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, *r.addr.Load()+path, bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := client.Do(req)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	var out bytes.Buffer
	_, _ = out.ReadFrom(resp.Body) // what is missing is seen
	return resp.StatusCode, out.String()
}

// verdictOf answers a call and gives what the server makes of that.
func (r *rig) verdictOf(t testing.TB, key, call, text string) string {
	t.Helper()
	status, answer := r.as(t, key, "/tools/"+call+"/result", map[string]any{"result": text})
	var got struct {
		Status    string
		Duplicate bool
	}
	if err := json.Unmarshal([]byte(answer), &got); err != nil || status != http.StatusOK {
		t.Errorf("a result: status %d: %s", status, answer)
	}
	if got.Duplicate {
		return got.Status + ", duplicate"
	}
	return got.Status
}

func (r *rig) wants(t testing.TB, who, key, call, text, want string) {
	t.Helper()
	if got := r.verdictOf(t, key, call, text); got != want {
		t.Errorf("%s: %q, not %q", who, got, want)
	}
}

// hostFaults are what a host may do wrong, each with one run or two of an
// agent's that lends it a tool.
var hostFaults = []struct {
	name string
	do   func(*testing.T, *actor) ledger.Result
}{
	{"never answers, until the turn's time is over", neverAnswers},
	{"never answers, and hangs up", hangsUp},
	{"answers twice, otherwise, and after the end", answersTwice},
	{"answers for another run and for another host", answersOthers},
}

// neverAnswers: a turn's time is that of its calls too. It is the more the
// longer a busy machine takes to come to the call.
func neverAnswers(t *testing.T, a *actor) ledger.Result {
	var res ledger.Result
	never := say("Never said.")
	never.sim = `{"stall":true}` // its call's time is over with the turn's
	for _, seconds := range []int{4, 20, 60} {
		p := a.does(t, map[string]any{"timeout_s": seconds}, say("I ask. "), look("x"), never)
		b := a.r.book(t, p)
		res.Add(b.closed(t, events.ErrTimeout))
		asked := server.Of[events.ToolRequest](p)
		if len(asked) == 0 {
			continue
		}
		resolvedOnce(t, p, asked[0].ToolCallID)
		a.r.wants(t, "late", a.r.Key(), asked[0].ToolCallID, "found", "not_found")
		res.Add(b.unchanged(t))
		return res
	}
	t.Error("the host is never asked")
	return res
}

func hangsUp(t *testing.T, a *actor) ledger.Result {
	p := a.does(t, map[string]any{"detach": false, "detach_grace_s": 0.2}, say("I ask. "), look("x"), say("Never said."))
	server.Until[events.ToolRequest](p, 1)
	task, l := p.TaskID(), ledger.New()
	p.HangUp()
	taped(l, "who hung up", p)
	server.Eventually(t, "the run ends", func() bool {
		var task2 struct{ Status struct{ State string } }
		a.r.Do(http.MethodGet, "/tasks/"+task, nil, &task2)
		return task2.Status.State == events.Canceled
	})
	late := a.r.Follow(t, task, "0")
	oneEnd(t, late.Whole(), events.ErrCanceled)
	if end := late.End(); end.Reason != "disconnected" {
		t.Errorf("it ended as %+v", end)
	}
	taped(l, "late", late).Whole()
	return a.r.compare(l, task)
}

func answersTwice(t *testing.T, a *actor) ledger.Result {
	p := a.does(t, nil, say("I ask. "), look("x"), say("Then this."))
	b := a.r.book(t, p)
	call := server.Until[events.ToolRequest](p, 1).ToolCallID
	var ok, twice int
	var each sync.WaitGroup
	var mu sync.Mutex
	for range 8 { // at once
		each.Go(func() {
			got := a.r.verdictOf(t, a.r.Key(), call, "found")
			mu.Lock()
			defer mu.Unlock()
			if got == "ok" {
				ok++
			} else if got == "ok, duplicate" {
				twice++
			}
		})
	}
	each.Wait()
	if ok != 1 || twice != 7 {
		t.Errorf("of eight equal results %d count, %d are duplicates", ok, twice)
	}
	a.r.wants(t, "another result", a.r.Key(), call, "something else", "not_found")
	res := b.closed(t, "")
	resolvedOnce(t, p, call)
	a.r.wants(t, "the same, late", a.r.Key(), call, "found", "ok, duplicate")
	a.r.wants(t, "another one, late", a.r.Key(), call, "something else", "not_found")
	if status, _ := a.r.as(t, a.r.Key(), "/tasks/"+b.task+":reply", map[string]any{"text": "late"}); status != http.StatusConflict {
		t.Errorf("a late reply: status %d", status)
	}
	if status, _ := a.r.as(t, a.r.Key(), "/tasks/"+b.task+":cancel", map[string]any{}); status != http.StatusConflict {
		t.Errorf("a late cancel: status %d", status)
	}
	res.Add(b.unchanged(t))
	return res
}

// answersOthers: two runs wait for results under the same native id. Another
// host can answer neither, and each gets its own.
func answersOthers(t *testing.T, a *actor) ledger.Result {
	other := &actor{r: a.r, v: a.v, sc: a.sc, context: a.context + "-other"}
	if a.sc != nil {
		other.sc = a.sc.Beside()
		other.sc.Func(other.next)
	}
	var books [2]*book
	var calls [2]string
	for i, k := range []*actor{a, other} {
		p := k.does(t, nil, say("I ask. "), look(fmt.Sprintf("arg-%d", i)), say("Then this."))
		books[i] = a.r.book(t, p)
		calls[i] = server.Until[events.ToolRequest](p, 1).ToolCallID
	}
	if calls[0] == calls[1] {
		t.Errorf("two calls have the id %s", calls[0])
	}
	for i, call := range calls {
		a.r.wants(t, "another host", otherKey, call, "stolen", "not_found")
		for _, path := range []string{
			"/tasks/" + books[1-i].task + "/requests/" + call, // a call is no request, and not that run's
			"/tasks/" + books[i].task + "/requests/" + call,
		} {
			if status, answer := a.r.as(t, a.r.Key(), path, map[string]any{"option": events.AllowOnce}); status != http.StatusNotFound {
				t.Errorf("%s: status %d: %s", path, status, answer)
			}
		}
		for _, path := range []string{":cancel", ":reply", "/requests/" + call} {
			if status, answer := a.r.as(t, otherKey, "/tasks/"+books[i].task+path, map[string]any{"text": "x"}); status != http.StatusNotFound {
				t.Errorf("another host's %s: status %d: %s", path, status, answer)
			}
		}
	}
	if a.sc != nil { // an agent's own id of a call is not what a host answers to: here two have it
		a.r.wants(t, "by the agent's id", a.r.Key(), "call_same", "stolen", "not_found")
	}
	for i, call := range calls {
		a.r.wants(t, "its own host", a.r.Key(), call, fmt.Sprintf("result-%d", i), "ok")
	}
	var res ledger.Result
	for i, b := range books {
		res.Add(b.closed(t, ""))
		resolvedOnce(t, b.post, calls[i])
		log := strings.Join(b.post.Lines(), "\n")
		if !strings.Contains(log, fmt.Sprintf("result-%d", i)) || strings.Contains(log, fmt.Sprintf("result-%d", 1-i)) || strings.Contains(log, "stolen") {
			t.Errorf("run %d got another's result:\n%s", i, b.post)
		}
	}
	return res
}

// resolvedOnce fails the test unless the log has one end of a call.
func resolvedOnce(t testing.TB, p *server.Tape, call string) {
	t.Helper()
	n := 0
	for _, d := range server.Of[events.ToolResolved](p) {
		if d.ToolCallID == call {
			n++
		}
	}
	if n != 1 {
		t.Errorf("call %s has %d ends:\n%s", call, n, p)
	}
}

// unchanged reads an ended run once more: nothing may have been added.
func (b *book) unchanged(t testing.TB) ledger.Result {
	t.Helper()
	l := ledger.New()
	b.r.late(l, "once more", b.task)
	taped(l, "the POST", b.post).Whole()
	return b.r.compare(l, b.task)
}
