package rpc_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"innerd/backends/internal/proc"
	"innerd/backends/internal/rpc"
	"innerd/test/mutate"
)

// counter is a Peer that answers nothing and counts pings.
func counter(framing rpc.Framing, pings *int) *rpc.Peer {
	return rpc.New(rpc.Options{
		Framing: framing,
		Send:    func([]byte) error { return nil },
		Notification: func(method string, _ json.RawMessage) {
			if method == "innerd-ping" {
				*pings++
			}
		},
	})
}

const ping = `{"method":"innerd-ping"}`

// Whatever comes before a line does not keep the line from being read.
func FuzzLines(f *testing.F) {
	f.Add([]byte(`{"id":1,"result":{}}`))
	f.Add([]byte("{\"method\":\"a\",\"params\":[1]}\n{\"id\":\"x\",\"method\":\"b\"}"))
	f.Add([]byte("\x00\xff\n\n{"))
	for _, said := range mutate.Printed(f, "../../../test/testdata/codex/*.jsonl", 4) {
		seed := mutate.Lines(said)
		f.Add(seed)
		for bad := range mutate.Bytes(seed, 10) {
			f.Add(bad)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		pings := 0
		p := counter(rpc.Lines, &pings)
		stream := append(bytes.Clone(b), "\n"+ping+"\n"...)
		if err := proc.ReadLines(bytes.NewReader(stream), 0, p.Handle, nil); err != nil {
			t.Fatal(err)
		}
		if pings == 0 {
			t.Error("the line after it was not read")
		}
	})
}

// Any bytes are survived; frames after lines that promise no length are read.
func FuzzHeaders(f *testing.F) {
	f.Add([]byte("Content-Length: 2\r\n\r\n{}"))
	f.Add([]byte("Warning\r\nContent-Type: x\r\nCONTENT-LENGTH: 20\r\n\r\n{\"method\":\"x\"}"))
	f.Add([]byte("Content-Length: 99999999\n\n"))
	f.Add([]byte("\u0130content-length: 5\n\nK"))
	for bad := range mutate.Bytes([]byte("Warning\r\nContent-Type: x\r\nCONTENT-LENGTH: 14\r\n\r\n{\"method\":\"x\"}Content-Length: 2\r\n\r\n{}"), 100) {
		f.Add(bad)
	}
	for _, said := range mutate.Printed(f, "../../../test/testdata/copilot/*.jsonl", 4) {
		var seed []byte
		for _, m := range said {
			seed = fmt.Appendf(seed, "Content-Length: %d\r\n\r\n%s", len(m), m)
		}
		f.Add(seed)
		for bad := range mutate.Bytes(seed, 10) {
			f.Add(bad)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		pings := 0
		p := counter(rpc.Headers, &pings)
		stream := fmt.Appendf(bytes.Clone(b), "\r\nContent-Length: %d\r\n\r\n%s", len(ping), ping)
		err := p.ReadFrames(bytes.NewReader(stream))
		promises := strings.Contains(strings.ToLower(string(b)), "content-length:")
		if !promises && (err != nil || pings == 0) {
			t.Errorf("the frame after it was not read: %v", err)
		}
	})
}
