//go:build linux

package faults_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"innerd/events"
	"innerd/test/ledger"
	"innerd/test/modelstub"
	"innerd/test/server"
)

// modelFault is something that a model's API does. What it does for ever is in
// test/parity (bad key, quota, limits of minutes, no connection), with every
// agent; here it gets well again, or is waited for.
type modelFault struct {
	name   string
	turns  []modelstub.Turn // one request each
	sim    string
	meta   map[string]any
	cancel bool
	want   string // error type; "": a success that says all of text
	text   string
	retry  string // a retry for this error type is told
	final  string // the backend that does not try again, and fails with it
}

const slowText = "one two three four five six seven eight nine ten"

func modelFaults() []modelFault {
	well := func(text string) modelstub.Turn { return modelstub.Say(modelstub.Text(text)) }
	half := modelstub.Text("half a sentence").Sleep(300 * time.Millisecond)
	all := []modelFault{
		{
			name: "slow", text: slowText, sim: fmt.Sprintf(`{"text":%q,"chunk_bytes":4,"delay_ms":50}`, slowText),
			turns: []modelstub.Turn{modelstub.Say(modelstub.Text(slowText).Chunk(4).Every(50 * time.Millisecond)).After(time.Second)},
		},
		{
			name: "cut in the middle of a stream", text: "half a sentence made whole", sim: `{"retry":{"text":"half a sentence made whole"}}`,
			turns: []modelstub.Turn{modelstub.Say(half.Cut(modelstub.CutReset)), well("half a sentence made whole")},
		},
		{
			name: "429 with its time", text: "after the limit", retry: events.ErrRateLimit,
			sim:   `{"retry":{"text":"after the limit","error_type":"rate_limit","wait_ms":1000}}`,
			turns: []modelstub.Turn{modelstub.RateLimited(time.Second), well("after the limit")},
		},
		{
			name: "529", text: "after the load", retry: events.ErrOverloaded, final: codexCLI.backend,
			sim:   `{"retry":{"text":"after the load","error_type":"overloaded","wait_ms":500}}`,
			turns: []modelstub.Turn{modelstub.Overloaded(), well("after the load")},
		},
		{
			name: "hangs in a stream", want: events.ErrTimeout, meta: map[string]any{"timeout_s": 3},
			sim: `{"text":"half "},{"stall":true}`, turns: []modelstub.Turn{modelstub.Say(half.Hang())},
		},
		{
			name: "no first byte", want: events.ErrCanceled, cancel: true,
			sim: `{"stall":true}`, turns: []modelstub.Turn{modelstub.NoAnswer()},
		},
	}
	if long() {
		all = append(all, modelFault{
			name: "closed in the middle of a stream", text: "half a sentence made whole",
			turns: []modelstub.Turn{modelstub.Say(half.Cut(modelstub.CutDrop)), well("half a sentence made whole")},
		})
	}
	return all
}

// What a model's API does, and what a host does wrong, ends the run with one
// terminal event, or is got over: then the text is there once. The log has
// what every reader was given, nothing is added after the end, an ended run
// asks its model nothing more, and the next run of the conversation works:
// one conversation has all of it.
func TestModelAndHostFaults(t *testing.T) {
	t.Parallel()
	began := time.Now()
	r := newRig(t).withOther().withVendors()
	faults := modelFaults()
	var names []string
	for _, f := range faults {
		names = append(names, f.name)
	}
	for _, f := range hostFaults {
		names = append(names, "the host "+f.name)
	}
	var models, hosts tally
	r.each(t, names, func(t *testing.T, a *actor, i int) {
		if i < len(faults) {
			models.add(faults[i].hit(t, a))
		} else {
			hosts.add(hostFaults[i-len(faults)].do(t, a))
		}
	})
	took := time.Since(began)
	result(t, fmt.Sprintf("%d faults of a model's API (simulate, %d real CLIs)", len(faults), len(vendors())), models.sum, took)
	result(t, fmt.Sprintf("%d faults of a host (simulate, %d real CLIs)", len(hostFaults), len(vendors())), hosts.sum, took)
}

// hit has the fault happen.
func (f modelFault) hit(t *testing.T, a *actor) ledger.Result {
	var acts []act
	for i, turn := range f.turns {
		sim := ""
		if i == 0 {
			sim = cmp.Or(f.sim, fmt.Sprintf(`{"text":%q}`, f.text))
		}
		acts = append(acts, answers(turn, sim))
	}
	if f.final == a.v.backend {
		f.want = f.retry
	}
	before, streams := a.asked(), 0
	if a.sc != nil {
		streams = a.sc.Count()
	}
	p := a.does(t, f.meta, acts...)
	b := a.r.book(t, p)
	if f.cancel {
		if a.sc != nil && a.sc.Await(t.Context(), streams+1) != nil {
			t.Error("the model is not asked")
		}
		p.Cancel()
	}
	res := b.closed(t, f.want)
	f.verdict(t, p)
	a.ended(t)
	if n := a.asked() - before; n > len(f.turns)+1 {
		t.Errorf("the model was asked %d times", n)
	}
	return res
}

func (f modelFault) verdict(t *testing.T, p *server.Tape) {
	t.Helper()
	if f.want != "" {
		return
	}
	if got := said(p); got != f.text {
		t.Errorf("a reader has %q in the end\n%s", got, p)
	}
	retried := slices.ContainsFunc(server.Of[events.Status](p), func(s events.Status) bool {
		return s.State == events.StateRetrying && s.ErrorType == f.retry
	})
	if f.retry != "" && !retried {
		t.Errorf("no retry is told\n%s", p)
	}
}

// said is what a reader of deltas ends up with: what was taken back is not
// there.
func said(p *server.Tape) string {
	var order []string
	texts := map[string]string{}
	for _, e := range p.Events() {
		switch d := e.Data.(type) {
		case events.MessageDelta:
			if _, ok := texts[d.MessageID]; !ok {
				order = append(order, d.MessageID)
			}
			texts[d.MessageID] += d.Delta
		case events.Discarded:
			delete(texts, d.MessageID)
		}
	}
	var out strings.Builder
	for _, id := range order {
		out.WriteString(texts[id])
	}
	return out.String()
}
