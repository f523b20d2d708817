//go:build linux

package parity_test

import (
	"fmt"
	"strings"
	"sync"

	"innerd/events"
	"innerd/test/server"
)

var manyRows = []row{
	{"conversations-equal-call-ids", func(w *world) { together(w, 2) }},
	{"conversations-ten-at-once", func(w *world) { together(w, 10) }},
}

// together has conversations call a tool of the host at once, all with the
// model's same id, two runs each: each gets its own result, and none is told
// anything of another.
func together(w *world, n int) {
	w.alone()
	var all sync.WaitGroup
	ready := make(chan struct{})
	var open sync.WaitGroup
	open.Add(n)
	for i := range n {
		k := w.talk(nil)
		all.Go(func() { // ends with its two runs
			one(w, k, i, open.Done, ready)
		})
	}
	open.Wait()
	close(ready)
	all.Wait()
	if w.Failed() {
		w.Logf("the processes are %s", server.Describe(w.s.Marked()))
	}
}

// one is what a conversation among others does; all their calls are open when
// ready is closed.
func one(w *world, k *talk, i int, open func(), ready <-chan struct{}) {
	mine := func(s string) string { return fmt.Sprintf("%s-%02d.", s, i) }
	opened := false
	defer func() {
		if !opened {
			open()
		}
	}()
	p := k.post(mine("ask"), tools("look"), say(mine("say")), call("look", obj{"of": mine("arg")}).native("call_same"), say(mine("then")))
	req := server.Until[events.ToolRequest](p, 1)
	opened = true
	open()
	<-ready
	if !strings.Contains(string(req.Arguments), mine("arg")) {
		w.Errorf("conversation %d was asked with %s", i, req.Arguments)
	}
	w.s.Result(req.ToolCallID, obj{"result": mine("result")})
	p.Completed()
	k.heardBack(p)
	next := k.run(mine("again"), tools("look"), say(mine("last")))
	heard := k.heard() + p.Text() + next.Text()
	for j := range 10 {
		if s := fmt.Sprintf("-%02d.", j); j != i && strings.Contains(heard, s) {
			w.Errorf("conversation %d has something of %d", i, j)
		}
	}
	k.once(mine("ask"), mine("say"), mine("then"), mine("again"))
	k.result(mine("result"))
	if !strings.Contains(p.Text(), mine("say")) || !strings.Contains(p.Text(), mine("then")) || !strings.Contains(next.Text(), mine("last")) {
		w.Errorf("conversation %d said %q, %q", i, p.Text(), next.Text())
	}
}
