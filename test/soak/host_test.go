//go:build linux

package soak_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"innerd/events"
	"innerd/test/ledger"
)

// listener looks at the frames of a run's stream as they come, and hands the
// few that the host does something about to it.
type listener struct {
	line []byte
	each func(events.Event)
}

// Write takes the next bytes of the stream.
func (l *listener) Write(p []byte) (int, error) {
	n := len(p)
	for {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			l.line = append(l.line, p...)
			return n, nil
		}
		l.line = append(l.line, p[:i]...)
		l.look()
		l.line, p = l.line[:0], p[i+1:]
	}
}

func (l *listener) look() {
	data, ok := bytes.CutPrefix(l.line, []byte("data: "))
	if !ok {
		return
	}
	switch ledger.TypeOf(data) {
	case events.TypeToolRequest, events.TypePermissionRequest, events.TypeInputRequired, events.TypeMessage, events.TypeEnd:
		if e, err := events.ParseLine(data); err == nil {
			l.each(e)
		}
	}
}

// host is what answers the requests of a run, well or badly.
type host struct {
	s    *soak
	task string
	wg   sync.WaitGroup
}

// answers counts what hosts did.
type answers struct{ tools, permissions, questions, late, twice, never, canceled, steered atomic.Int64 }

// cancelLater ends a run that nothing else would end for long.
func (h *host) cancelLater(ctx context.Context, after time.Duration) {
	h.wg.Go(func() { // ends with the answer, or the context
		if pause(ctx, after) {
			h.s.answers.canceled.Add(1)
			h.call(ctx, "/tasks/"+h.task+":cancel", object{"reason": "enough"})
		}
	})
}

// answer answers a request: mostly at once, sometimes late, sometimes twice,
// sometimes not at all; then the run is canceled.
func (h *host) answer(ctx context.Context, e events.Event) {
	path, body := h.body(e)
	if path == "" {
		return
	}
	roll := rand.IntN(100)
	if roll < 4 {
		h.s.answers.never.Add(1)
		h.cancelLater(ctx, time.Duration(rand.IntN(1000))*time.Millisecond)
		return
	}
	h.wg.Go(func() { // ends with the answer, or the context
		if roll < 14 {
			h.s.answers.late.Add(1)
			pause(ctx, time.Duration(200+rand.IntN(2000))*time.Millisecond)
		}
		h.call(ctx, path, body)
		if roll >= 94 {
			h.s.answers.twice.Add(1)
			h.call(ctx, path, body)
		}
	})
}

// body is what a request is answered with.
func (h *host) body(e events.Event) (path string, body object) {
	n := rand.IntN(8)
	switch d := e.Data.(type) {
	case events.ToolRequest:
		h.s.answers.tools.Add(1)
		body = object{"result": fmt.Sprint("the result of ", d.ToolCallID)}
		switch n {
		case 0:
			body = object{"content": []object{{"type": "image", "mime_type": "image/png", "data": "iVBORw0KGgo="}, {"type": "text", "text": "a picture"}}}
		case 1:
			body["is_error"] = true
		}
		return "/tools/" + d.ToolCallID + "/result", body
	case events.PermissionRequest:
		h.s.answers.permissions.Add(1)
		return "/tasks/" + h.task + "/requests/" + d.RequestID, object{"option": d.Options[n%len(d.Options)].ID}
	case events.InputRequired:
		h.s.answers.questions.Add(1)
		if n < 4 {
			return "/tasks/" + h.task + ":reply", object{"text": "the first", "request_id": d.RequestID}
		}
		return "/tasks/" + h.task + "/requests/" + d.RequestID, object{"value": "the second"}
	}
	return "", nil
}

// call makes a call. That something is over or answered already is no failure:
// runs end at any moment.
func (h *host) call(ctx context.Context, path string, body object) {
	status, answer, err := h.s.c.call(ctx, http.MethodPost, path, body)
	if ctx.Err() == nil && (err != nil || status >= 500 && status != http.StatusNotImplemented || status == http.StatusBadRequest) {
		h.s.fail("POST %s: status %d, %v: %.300s", path, status, err, answer)
	}
}

// pause waits. false: the context ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
