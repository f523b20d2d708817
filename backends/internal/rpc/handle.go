package rpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
)

// Request is a question of the peer. It is answered once; its methods may be
// called by any goroutine, at any time.
type Request struct {
	Method string
	Params json.RawMessage

	p        *Peer
	id       json.RawMessage // as it came, number or string
	answered atomic.Bool
}

// ErrAnswered is the error of a second answer.
var ErrAnswered = errors.New("rpc: the request was answered")

// ID is the peer's own id of the request, as JSON: later messages may name it.
func (r *Request) ID() json.RawMessage { return r.id }

// Respond answers with a result.
func (r *Request) Respond(result any) error {
	raw, err := encode(result)
	if err != nil {
		return r.Fail(CodeInternal, "result: "+err.Error())
	}
	if raw == nil {
		raw = json.RawMessage("null") // a response must have one of the two
	}
	return r.answer(message{ID: r.id, Result: raw})
}

// Fail answers with an error.
func (r *Request) Fail(code int, text string) error {
	return r.answer(message{ID: r.id, Error: &Error{Code: code, Message: text}})
}

func (r *Request) answer(m message) error {
	if !r.answered.CompareAndSwap(false, true) {
		return ErrAnswered
	}
	return r.p.send(m)
}

// Handle takes one message without its frame; it keeps nothing of it.
func (p *Peer) Handle(frame []byte) {
	p.handling.Add(1)
	defer p.handling.Add(-1)
	var m message
	frame = bytes.TrimSpace(frame)
	if len(frame) == 0 {
		return
	}
	// An object only: other JSON decodes into a message without error.
	if frame[0] != '{' {
		p.garbage("not a message", frame)
		return
	}
	if p.o.Skip != nil && p.o.Skip(frame) {
		return
	}
	if err := json.Unmarshal(frame, &m); err != nil {
		p.garbage("not a message", frame)
		return
	}
	hasID := len(m.ID) > 0 && string(m.ID) != "null"
	switch {
	case m.Method != "" && hasID:
		p.request(m)
	case m.Method != "":
		if p.o.Notification != nil {
			p.o.Notification(m.Method, m.Params)
		}
	case hasID:
		p.response(m, frame)
	default:
		p.garbage("neither a call nor an answer", frame)
	}
}

func (p *Peer) request(m message) {
	r := &Request{Method: m.Method, Params: m.Params, p: p, id: m.ID}
	if p.o.Request == nil || !p.o.Request(r) {
		_ = r.Fail(CodeMethodNotFound, "unknown method: "+m.Method) // fails if the peer is gone
	}
}

func (p *Peer) response(m message, frame []byte) {
	id, err := strconv.ParseInt(string(bytes.Trim(m.ID, `"`)), 10, 64)
	p.mu.Lock()
	never := err != nil || id <= 0 || id > p.last
	p.mu.Unlock()
	if never {
		p.garbage("an answer to no call", frame)
		return
	}
	c, ok := p.take(id)
	if !ok {
		return // it was forgotten
	}
	if m.Error != nil {
		m.Error.Method = c.method
		c.answer(nil, m.Error)
		return
	}
	if m.Result == nil {
		m.Result = json.RawMessage("null")
	}
	c.answer(m.Result, nil)
}

func (p *Peer) garbage(what string, data []byte) {
	if p.o.Garbage != nil {
		p.o.Garbage(fmt.Sprintf("%s: %q", what, data[:min(len(data), 200)]))
	}
}
