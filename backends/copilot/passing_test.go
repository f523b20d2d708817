package copilot_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"innerd/backends/copilot"
	"innerd/test/transcript"
)

// Of all that the real CLI has printed, what says nothing to a host is passed
// over, whole and by its beginning alone, and nothing else is.
func TestPassedOver(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(transcripts, "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	passed := map[string]int{}
	for _, file := range files {
		for _, frame := range transcript.Printed(t, file) {
			var m struct {
				Method string `json:"method"`
				Params struct {
					Event struct {
						Type string `json:"type"`
					} `json:"event"`
				} `json:"params"`
			}
			if err := json.Unmarshal(frame, &m); err != nil {
				continue // what it cut
			}
			typ := m.Params.Event.Type
			nothing := m.Method == "session.lifecycle" || m.Method == "session.event" && copilot.SaysNothing(typ)
			if got := copilot.PassedOver(frame); got != nothing {
				t.Errorf("%s %s: passed over %t, says nothing %t: %.300s", m.Method, typ, got, nothing, frame)
			}
			if nothing {
				passed[typ]++
			}
		}
	}
	if len(passed) < 10 {
		t.Errorf("the transcripts have %d types that say nothing: %v", len(passed), passed)
	}
}

// What does not begin as copilot writes it, or only looks like it, is decoded.
func TestDecodedForItsBeginning(t *testing.T) {
	const event = `{"jsonrpc":"2.0","method":"session.event","params":{"sessionId":"s","event":{"type":"%s","data":{}}}}`
	if !copilot.PassedOver(fmt.Appendf(nil, event, "system.message")) {
		t.Fatal("an event that says nothing is decoded")
	}
	for name, frame := range map[string]string{
		"handled":          fmt.Sprintf(event, "assistant.message"),
		"unknown":          fmt.Sprintf(event, "new.in.the.next.release"),
		"no type":          fmt.Sprintf(event, ""),
		"spaces":           `{ "jsonrpc": "2.0", "method": "session.event", "params": {"sessionId": "s", "event": {"type": "system.message"}}}`,
		"another order":    `{"jsonrpc":"2.0","method":"session.event","params":{"event":{"type":"system.message"},"sessionId":"s"}}`,
		"type of another":  `{"jsonrpc":"2.0","method":"session.event","params":{"sessionId":"s","x":{"y":"","event":{"type":"system.message"}},"event":{"type":"assistant.message"}}}`,
		"escape":           fmt.Sprintf(event, `system\u002emessage`),
		"no end":           `{"jsonrpc":"2.0","method":"session.event","params":{"sessionId":"s","event":{"type":"system.message`,
		"a long session":   `{"jsonrpc":"2.0","method":"session.event","params":{"sessionId":"` + strings.Repeat("s", 600) + `","event":{"type":"system.message"}}}`,
		"a request":        `{"jsonrpc":"2.0","id":1,"method":"session.event","params":{"sessionId":"s","event":{"type":"system.message"}}}`,
		"an answer":        `{"jsonrpc":"2.0","id":1,"result":{}}`,
		"another notice":   `{"jsonrpc":"2.0","method":"session.eventually","params":{}}`,
		"lifecycle's like": `{"jsonrpc":"2.0","method":"session.lifecycles","params":{}}`,
	} {
		if copilot.PassedOver([]byte(frame)) {
			t.Errorf("%s: passed over: %.200s", name, frame)
		}
	}
}
