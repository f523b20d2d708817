package codex_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/backends/codex"
	"innerd/events"
)

const threadX = "01a22024-9828-7ae1-b7cd-54d831201a5f"

// rolled is a thread's file as codex writes it.
func rolled(tools string) string {
	return `{"type":"session_meta","payload":{"id":"` + threadX + `","cli_version":"` + codex.Version + `","dynamic_tools":` + tools + `}}` + "\n" +
		`{"type":"response_item","payload":{"type":"message","role":"developer","content":[{"type":"input_text","text":"<host_instructions>\nold \"text\"\n</host_instructions>"},{"type":"input_text","text":"more"}]}}` + "\n" +
		`{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"<host_instructions>mine</host_instructions>"}]}}` + "\n"
}

func TestResume(t *testing.T) {
	t.Parallel()
	st := newStage(t, script{
		"turn/start": {{accepted, started, said("again"), finished}},
		"thread/resume": {
			{`{"id":{{id}},"error":{"code":-32600,"message":"thread x already has an active writer"}}`},
			{thread, `{"method":"thread/tokenUsage/updated","params":{"threadId":"{{thread}}","turnId":"before","tokenUsage":{"total":{"totalTokens":9,"inputTokens":8,"outputTokens":1}}}}`},
		},
	})
	path := st.keep(threadX, rolled("[]"))
	evs, _, err := run(t, st.open(idA, threadX), backendtest.Turn{}, backends.Settings{System: "new text", Tools: []backends.Tool{tool("alpha")}})
	if err != nil || !slices.Equal(texts(evs), []string{"again"}) {
		t.Fatal(texts(evs), err)
	}
	raw, _ := os.ReadFile(path)
	for _, want := range []string{`"name":"alpha"`, "new text", "<host_instructions>mine</host_instructions>"} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("the file has no %s: %s", want, raw)
		}
	}
	if strings.Contains(string(raw), "old") {
		t.Errorf("the old text is still there: %s", raw)
	}
	for _, e := range evs {
		if u, ok := e.Data.(events.Usage); ok && *u.InputTokens != 0 {
			t.Errorf("usage of an earlier run: %d", *u.InputTokens)
		}
	}
}

// TestResumeImpossible: where the past can't be had, the run is told so before
// anything was sent.
func TestResumeImpossible(t *testing.T) {
	t.Parallel()
	refused := map[string]script{
		"another process has it": {"thread/resume": slices.Repeat([][]string{{`{"id":{{id}},"error":{"code":-32600,"message":"thread x already has an active writer"}}`}}, 100)},
		"codex writes no files":  {"fs/writeFile": {{`{"id":{{id}},"error":{"code":-32601,"message":"no such method"}}`}}},
	}
	for name, content := range map[string]string{
		"codex writes no files":  rolled("[]"),
		"another form":           "{}\n{}\n",
		"no line":                "",
		"not our text":           strings.ReplaceAll(rolled("[]"), "host_instructions", "other"),
		"another release":        strings.ReplaceAll(rolled("[]"), codex.Version, "9.9.9"),
		"codex has lost it":      rolled("[]"),
		"another process has it": rolled("[]"),
	} {
		s := script{"thread/resume": {{`{"id":{{id}},"error":{"code":-32600,"message":"no rollout found for thread id"}}`}}}
		if refused[name] != nil {
			s = refused[name]
		}
		st := newStage(t, s)
		st.keep(threadX, content)
		evs, _, err := run(t, st.open(idA, threadX), backendtest.Turn{}, backends.Settings{System: "new"})
		if !errors.Is(err, backends.ErrNewSession) || len(evs) > 0 {
			t.Errorf("%s: %v, %d events", name, err, len(evs))
		}
		if strings.Contains(st.heard(), "turn/start") {
			t.Errorf("%s: a turn was begun", name)
		}
	}
}
