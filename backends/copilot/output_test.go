package copilot_test

import (
	"encoding/json"
	"strings"
	"testing"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/events"
)

// output is what a log tells of a call: what came while it ran, and its end.
func output(rec *backendtest.Recorder) (told []string, end events.ToolComplete) {
	for _, e := range rec.Events() {
		switch d := e.Data.(type) {
		case events.ToolUpdate:
			told = append(told, d.Output)
		case events.ToolComplete:
			end = d
		}
	}
	return told, end
}

// calling plays a turn with one call that prints and ends.
func calling(t *testing.T, tool string, printed []act, end string) (told []string, ended events.ToolComplete) {
	t.Helper()
	_, rec, _, err := play(t, backends.Settings{}, backendtest.Turn{}, acts(
		[]act{event(`{"type":"tool.execution_start","data":{"toolCallId":"c","toolName":"` + tool + `","arguments":{}}}`)},
		printed, []act{event(`{"type":"tool.execution_complete","data":{"toolCallId":"c",` + end + `}}`), say("ok")}, stop)...)
	if err != nil {
		t.Error(err)
	}
	return output(rec)
}

// soFar is all that a call has printed; piece is what a command has since.
func soFar(text string) act {
	raw, _ := json.Marshal(text)
	return event(`{"type":"tool.execution_partial_result","data":{"toolCallId":"c","partialOutput":` + string(raw) + `}}`)
}

func piece(text string) act {
	raw, _ := json.Marshal(text)
	return event(`{"type":"tool.shell_output","data":{"toolCallId":"c","stream":"stdout","sequence":0,"text":` + string(raw) + `}}`)
}

const worked = `"success":true,"result":{"content":"all"}`

// TestOutputThatGrows: each part of it is told once.
func TestOutputThatGrows(t *testing.T) {
	t.Parallel()
	told, _ := calling(t, "web_fetch", []act{soFar("a"), soFar("aüb"), soFar("aüb"), soFar(""), soFar("aübc\n"), soFar("aübc\n")}, worked)
	if strings.Join(told, "|") != "a|üb|c\n" {
		t.Errorf("%q", told)
	}
}

// TestLongOutput: all that a command prints is told. What copilot calls its
// output so far has no more than 10,000 characters of it, and then its last 128.
func TestLongOutput(t *testing.T) {
	t.Parallel()
	line := strings.Repeat("x", 999) + "\n"
	var printed []act
	for i := range 20 {
		all := strings.Repeat(line, i+1)
		if i >= 10 {
			all = all[:10_000] + "<output too long - dropped 3 lines from the end>\n"
		}
		if i >= 15 {
			all = line[len(line)-128:]
		}
		printed = append(printed, piece(line), soFar(all))
	}
	told, _ := calling(t, "bash", printed, worked)
	if all := strings.Join(told, ""); all != strings.Repeat(line, 20) {
		t.Errorf("%d bytes, of which %d are not the command's", len(all), len(strings.ReplaceAll(strings.ReplaceAll(all, "x", ""), "\n", "")))
	}
}

// TestEndOfAnotherForm: a call ends however its end is written.
func TestEndOfAnotherForm(t *testing.T) {
	t.Parallel()
	for end, want := range map[string]events.ToolComplete{
		worked:                           {Success: true, Result: "all"},
		`"success":true,"result":"all"`:  {Success: true, Result: "all"},
		`"success":true,"result":[7]`:    {Success: true},
		`"success":true`:                 {Success: true},
		`"success":"yes","result":"all"`: {Result: "all"},
		`"success":true,"result":{"content":7},"shellExecution":{"exitCode":3.0}`:  {ExitCode: new(int)},
		`"success":false,"error":"no","result":{"content":"all"}`:                  {Result: "no"},
		`"success":false,"error":{"message":7},"result":"all","shellExecution":[]`: {Result: "all"},
	} {
		_, got := calling(t, "view", nil, end)
		if got.ID != "c" || got.Success != want.Success || got.Result != want.Result || (got.ExitCode == nil) != (want.ExitCode == nil) {
			t.Errorf("%s: %+v", end, got)
		}
	}
}
