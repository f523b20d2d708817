//go:build linux

package faults_test

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"innerd/adapter/api"
	"innerd/events"
	"innerd/test/agents"
	"innerd/test/hostile"
	"innerd/test/server"
)

// A conversation is warm, and has one of the places of --max-warm, only while
// its agent lives: not where it never came up, and not where it died between
// two runs, for all that share it. Nobody's healthy agent is closed for one
// that is not there. The next run of such a conversation starts its agent.
func TestOnlyLivingAgentsAreWarm(t *testing.T) {
	t.Parallel()
	for _, backend := range []string{"claude-code", "codex", "copilot"} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			w := newWarmth(t, backend)
			w.well("w1")
			w.sick(true)
			for _, c := range []string{"one", "two"} {
				oneEnd(t, w.agent(c, "say hello").Whole(), events.ErrBackendUnavailable)
			}
			w.are("after failed starts", map[string]string{"w1": "idle", "one": "cold", "two": "cold"})
			w.well("w2")
			w.well("w3")
			w.are("beside agents that never came up", map[string]string{"w1": "idle", "w2": "idle", "w3": "idle", "one": "cold", "two": "cold"})
			w.sick(false)
			w.agent("one", "say hello").Completed()
			w.agent("two", "say hello").Completed()
			w.are("of three places two are the agent's", map[string]string{"w1": "cold", "w2": "cold", "w3": "idle", "one": "idle", "two": "idle"})
			if err := w.KillAgents(); err != nil {
				t.Fatal(err)
			}
			w.are("after the agents' death", map[string]string{"w1": "cold", "w2": "cold", "w3": "idle", "one": "cold", "two": "cold"})
			w.well("w1")
			w.well("w2")
			w.are("beside dead agents", map[string]string{"w1": "idle", "w2": "idle", "w3": "idle", "one": "cold", "two": "cold"})
			if p := w.agent("one", "say again").Completed(); !strings.Contains(p.Text(), "again") {
				t.Errorf("it says %q", p.Text())
			}
		})
	}
}

// warmth is a server with three warm places, one CLI and simulate.
type warmth struct {
	*rig
	backend string
	mark    string // a file: while it is there, the CLI ends at once
	talks   map[string]*history
}

func newWarmth(t *testing.T, backend string) *warmth {
	w := &warmth{rig: newRig(t), backend: backend, talks: map[string]*history{}}
	w.mark = filepath.Join(t.TempDir(), "sick")
	w.Env = append(w.Env, hostile.Install(t)...)
	w.Args = append(w.Args, "--max-warm", "3")
	for _, v := range w.Env {
		name, path, _ := strings.Cut(v, "=")
		if !strings.HasPrefix(name, "INNERD_") {
			continue
		}
		behind := filepath.Join(filepath.Dir(path), "behind")
		if err := os.MkdirAll(behind, 0o755); err != nil {
			t.Fatal(err)
		}
		behind = filepath.Join(behind, filepath.Base(path))
		if err := os.Rename(path, behind); err != nil {
			t.Fatal(err)
		}
		agents.WriteProgram(t, path, fmt.Sprintf("#!/bin/sh\n[ \"$1\" != --version ] && [ -e %s ] && exit 3\nexec %s \"$@\"\n", w.mark, behind))
	}
	w.start()
	return w
}

func (w *warmth) sick(is bool) {
	w.T.Helper()
	change := os.Remove
	if is {
		change = func(name string) error { return os.WriteFile(name, nil, 0o600) }
	}
	if err := change(w.mark); err != nil {
		w.T.Fatal(err)
	}
}

// agent is a run with the CLI; all its conversations may share a process.
func (w *warmth) agent(context, orders string) *server.Tape {
	w.T.Helper()
	return w.run(context, "Please <<"+orders+">>", body(w.backend, "", map[string]any{
		"credentials": map[string]any{"api_key": "sk-dummy", "base_url": "http://127.0.0.1:9/v1"},
	}))
}

// well is a run with simulate that must succeed.
func (w *warmth) well(context string) {
	w.T.Helper()
	w.run(context, "go on", simulate(`[{"text":"hello"}]`, nil)).Completed()
}

func (w *warmth) run(context, text string, b map[string]any) *server.Tape {
	w.T.Helper()
	h := w.talks[context]
	if h == nil {
		h = &history{}
		w.talks[context] = h
	}
	h.last = w.Post(w.T, in(context, h.request(b, text)))
	return h.last
}

// are waits until the conversations are in these states, by all that a server
// says of them.
func (w *warmth) are(when string, want map[string]string) {
	w.T.Helper()
	idle := 0
	for _, state := range want {
		if state == "idle" {
			idle++
		}
	}
	for end := time.Now().Add(server.Soon); ; time.Sleep(5 * time.Millisecond) { // nothing tells of it
		states, warm, gauge := w.look()
		if maps.Equal(states, want) && warm == idle && gauge == idle {
			return
		}
		if time.Now().After(end) {
			w.T.Fatalf("%s: %v, %d warm, %d idle by the metrics; want %v", when, states, warm, gauge, want)
		}
	}
}

// look gives the conversations' states, how many agents wait for a run, and how
// many conversations are idle by the metrics.
func (w *warmth) look() (states map[string]string, warm, idle int) {
	w.T.Helper()
	var all api.Conversations
	var debug api.Streams
	w.Do(http.MethodGet, "/conversations", nil, &all)
	w.Do(http.MethodGet, "/debug/streams", nil, &debug)
	_, metrics := w.Call(http.MethodGet, "/metrics", nil)
	states = map[string]string{}
	for _, c := range all.Conversations {
		states[c.ContextID] = c.State
	}
	for line := range strings.Lines(string(metrics)) {
		if strings.HasPrefix(line, "innerd_conversations{") && strings.Contains(line, `state="idle"`) {
			var n int
			if _, err := fmt.Sscan(line[strings.LastIndexByte(line, ' '):], &n); err != nil {
				w.T.Errorf("%q: %v", line, err)
			}
			idle += n
		}
	}
	return states, debug.Pool.Warm, idle
}
