// Package rpc speaks JSON-RPC with an agent: lines or Content-Length frames,
// calls in both directions. It reads what it is handed and writes through a
// function, so that it owns no goroutine and no pipe.
package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// ErrClosed is the error of a Peer that was closed without one.
var ErrClosed = errors.New("rpc: closed")

// Framing is how messages are told apart.
type Framing int

// The framings.
const (
	Lines   Framing = iota // one message a line
	Headers                // Content-Length, an empty line, the message
)

// Options of a Peer. The functions but Send are called by the goroutine that
// reads, in the order of what it reads; they must not wait for the peer.
type Options struct {
	Framing Framing
	// Send takes a whole frame, which it may keep, and does not wait for the peer.
	Send func(frame []byte) error
	// Skip is shown each message before it is decoded, and keeps nothing of it.
	// True: that was all. nil: all are decoded.
	Skip func(frame []byte) bool
	// Notification gets what needs no answer. nil: dropped.
	Notification func(method string, params json.RawMessage)
	// Request gets what the peer wants to know; the answer may be given later,
	// by any goroutine. False, or nil: it is answered as an unknown method,
	// since an agent waits for ever for an answer that does not come.
	Request func(*Request) bool
	// Garbage is told of what is no message, in a few words. nil: dropped.
	Garbage func(what string)
	// MaxFrame is the longest message that ReadFrames takes, in bytes; 0: 64 MiB.
	MaxFrame int
}

// Peer is one end of a connection. Its methods may be called at the same time,
// but for Handle and ReadFrames, which belong to the goroutine that reads.
type Peer struct {
	o Options

	mu    sync.Mutex
	last  int64 // our calls are numbered from 1; the peer's have ids of their own
	calls map[int64]call
	cause error // after Close
	done  chan struct{}

	handling atomic.Int64 // 1 while Handle is at work
}

type call struct {
	method string
	answer func(json.RawMessage, error)
}

// New makes a Peer.
func New(o Options) *Peer {
	return &Peer{o: o, calls: map[int64]call{}, done: make(chan struct{})}
}

// Error is the peer's refusal of a call.
type Error struct {
	Method  string          `json:"-"`
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s (%d)", e.Method, e.Message, e.Code) }

// Codes of errors.
const (
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternal       = -32603
)

// message is everything that can be in a frame. "jsonrpc" is not looked at:
// Codex leaves it out.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *Error          `json:"error,omitempty"`
}

// Call asks the peer and decodes its result into result, unless that is nil.
// A refusal is an *Error, the peer's death wraps the error of Close. When ctx
// ends, the answer is no longer waited for.
func (p *Peer) Call(ctx context.Context, method string, params, result any) error {
	return p.CallLate(ctx, method, params, result, nil)
}

// CallLate is Call for what must be undone where nobody waits for it any more:
// a result that comes after the end of ctx is given to late, by the goroutine
// that reads.
func (p *Peer) CallLate(ctx context.Context, method string, params, result any, late func(json.RawMessage)) error {
	type answer struct {
		raw json.RawMessage
		err error
	}
	got := make(chan answer, 1)
	var left atomic.Bool // nobody waits
	forget, err := p.Go(method, params, func(raw json.RawMessage, err error) {
		if !left.CompareAndSwap(false, true) {
			if err == nil {
				late(raw)
			}
			return
		}
		got <- answer{raw, err}
	})
	if err != nil {
		return p.sendError(ctx, method, err)
	}
	var a answer
	select {
	case a = <-got:
	case <-ctx.Done():
		if late == nil {
			forget()
			return fmt.Errorf("%s: %w", method, context.Cause(ctx))
		}
		if left.CompareAndSwap(false, true) {
			return fmt.Errorf("%s: %w", method, context.Cause(ctx))
		}
		a = <-got // it has just been answered
	}
	if a.err != nil || result == nil {
		return a.err
	}
	if err := json.Unmarshal(a.raw, result); err != nil {
		return fmt.Errorf("%s: result: %w", method, err)
	}
	return nil
}

// Handling reports whether a message is being handled: what the peer has said
// since is not known yet. A handler may wait for a log that waits for its disk,
// which is no fault of the peer's.
func (p *Peer) Handling() bool { return p.handling.Load() > 0 }

// closeWait is how long a call that could not be sent waits to be told why.
const closeWait = 2 * time.Second

// sendError prefers the reason of the peer's death to that of a closed pipe,
// which is seen a moment earlier.
func (p *Peer) sendError(ctx context.Context, method string, err error) error {
	late := time.NewTimer(closeWait)
	defer late.Stop()
	select {
	case <-p.done:
		return fmt.Errorf("%s: %w", method, p.Err())
	case <-ctx.Done():
	case <-late.C:
	}
	return err
}

// Go asks the peer and returns. answer is called once, by the goroutine that
// reads, so that it stands in order with notifications; or by Close; or never,
// if forget is called first or Go fails.
func (p *Peer) Go(method string, params any, answer func(json.RawMessage, error)) (forget func(), err error) {
	raw, err := encode(params)
	if err != nil {
		return nil, fmt.Errorf("%s: params: %w", method, err)
	}
	p.mu.Lock()
	if p.cause != nil {
		defer p.mu.Unlock()
		return nil, fmt.Errorf("%s: %w", method, p.cause)
	}
	p.last++
	id := p.last
	p.calls[id] = call{method, answer}
	p.mu.Unlock()

	forget = func() { p.take(id) }
	err = p.send(message{ID: strconv.AppendInt(nil, id, 10), Method: method, Params: raw})
	if err != nil {
		if _, ours := p.take(id); !ours {
			return forget, nil // Close was faster and has answered
		}
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	return forget, nil
}

// take removes a call; false: it was answered or forgotten.
func (p *Peer) take(id int64) (call, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, ok := p.calls[id]
	delete(p.calls, id)
	return c, ok
}

// Notify tells the peer something.
func (p *Peer) Notify(method string, params any) error {
	raw, err := encode(params)
	if err != nil {
		return fmt.Errorf("%s: params: %w", method, err)
	}
	return p.send(message{Method: method, Params: raw})
}

// Done is closed by Close.
func (p *Peer) Done() <-chan struct{} { return p.done }

// Err is what Close was given; nil before.
func (p *Peer) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cause
}

// Close says that the peer is gone, and why: every call, open or to come,
// fails with that. Only the first counts.
func (p *Peer) Close(cause error) {
	if cause == nil {
		cause = ErrClosed
	}
	p.mu.Lock()
	if p.cause != nil {
		p.mu.Unlock()
		return
	}
	p.cause = cause
	open := p.calls
	p.calls = map[int64]call{}
	p.mu.Unlock()
	close(p.done)
	for _, c := range open {
		c.answer(nil, fmt.Errorf("%s: %w", c.method, cause))
	}
}

// send writes one frame.
func (p *Peer) send(m message) error {
	if cause := p.Err(); cause != nil {
		return cause
	}
	m.Version = "2.0"
	body, err := encode(m)
	if err != nil {
		return err
	}
	return p.o.Send(frame(p.o.Framing, body))
}

// encode is json.Marshal without the escapes that are for HTML; nil is nothing.
func encode(v any) (json.RawMessage, error) {
	if v == nil {
		return nil, nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), nil
}
