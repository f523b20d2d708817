package mcpjson_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"innerd/events"
	"innerd/events/mcpjson"
)

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name+".json")
	got = append(bytes.Clone(got), '\n')
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Error(d)
	}
}

func TestResult(t *testing.T) {
	b64 := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	for name, a := range map[string]events.Answer{
		"text":        {Outcome: events.OutcomeOK, Result: "rain & <sun> \u2028 \u2029 \u0085 😀 \r\n \x00"},
		"empty":       {Outcome: events.OutcomeOK},
		"not_utf8":    {Outcome: events.OutcomeOK, Result: "a\xffb"},
		"error":       {Outcome: events.OutcomeError, IsError: true, Result: "no such city"},
		"timeout":     {Outcome: events.OutcomeTimeout, Result: "the tool gave no result"},
		"canceled":    {Outcome: events.OutcomeCanceled},
		"empty_parts": {Outcome: events.OutcomeOK, Result: "used", Content: []events.Part{}},
		"parts": {Outcome: events.OutcomeOK, Result: "not used", Content: []events.Part{
			events.Text("one"), events.Text(""),
			{Type: events.PartImage, MimeType: "image/png", Data: "aW1n"},
			{Type: events.PartImage, MimeType: "image/png", URL: "https://example.com/a.png"},
			{Type: events.PartAudio, MimeType: "audio/mpeg", Data: "c25k"},
			{Type: events.PartVideo, MimeType: "video/mp4", Data: "dmlk"},
			{Type: events.PartFile, Name: "a b.txt", MimeType: "text/plain; charset=utf-8", Data: b64("hällo\u2028")},
			{Type: events.PartFile, Name: "bad.txt", MimeType: "text/plain", Data: b64("\xff")},
			{Type: events.PartFile, Name: "a.pdf", MimeType: "application/pdf", Data: b64("%PDF")},
			{Type: events.PartFile, Data: b64("?")},
			{Type: events.PartFile, Name: "out.csv", Path: "/tmp/out.csv"},
			{Type: events.PartJSON, JSON: json.RawMessage("{\"a\": [1,\n 2.50], \"s\":\"\u2028\"}")},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got := mcpjson.Result(a)
			golden(t, "result_"+name, got)
			checkLine(t, got)
			if bytes.Contains(got, []byte("structuredContent")) {
				t.Error("structuredContent")
			}
		})
	}
}

func TestTool(t *testing.T) {
	for name, got := range map[string]json.RawMessage{
		"plain":    mcpjson.Tool("weather", "The weather.\u2028Now.", json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}}}`), true, nil),
		"meta":     mcpjson.Tool("w", "", nil, false, map[string]any{"anthropic/alwaysLoad": true}),
		"schema":   mcpjson.Tool("w", "", json.RawMessage("{\n\"type\":\"object\",\"title\":\"\u2028\u0085\"}"), false, nil),
		"bad_meta": mcpjson.Tool("w", "", nil, false, map[string]any{"f": func() {}}),
	} {
		t.Run(name, func(t *testing.T) {
			golden(t, "tool_"+name, got)
			checkLine(t, got)
		})
	}
}

func TestSchema(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{``, `{"type":"object"}`},
		{`null`, `{"type":"object"}`},
		{`{`, `{"type":"object"}`},
		{`[]`, `{"type":"object"}`},
		{`{"type":"string"}`, `{"type":"object"}`},
		{`{"type":["object"]}`, `{"type":"object"}`},
		{`{"properties":{"b":1}}`, `{"properties":{"b":1},"type":"object"}`},
		{`{"type":"object", "x":1}`, `{"type":"object", "x":1}`},
		{`{"type":"object","parallel":false,"a":1}`, `{"a":1,"type":"object"}`},
		{`{"type":"object","parallel":{"type":"string"}}`, `{"type":"object","parallel":{"type":"string"}}`},
	} {
		if got := string(mcpjson.Schema(json.RawMessage(c.in))); got != c.want {
			t.Errorf("Schema(%s) = %s, want %s", c.in, got, c.want)
		}
	}
}

func TestLarge(t *testing.T) {
	data := strings.Repeat("QUJD", 1<<20)
	got := mcpjson.Result(events.Answer{Outcome: events.OutcomeOK, Content: []events.Part{
		events.Text(strings.Repeat("x\u2028", 1<<18)), {Type: events.PartImage, MimeType: "image/png", Data: data},
	}})
	var r struct {
		Content []struct{ Text, Data string }
	}
	if err := json.Unmarshal(got, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Content[0].Text) != 1<<20 || r.Content[1].Data != data {
		t.Error("not whole")
	}
	checkLine(t, got)
}

// checkLine reports characters at which some reader ends a line.
func checkLine(t *testing.T, got []byte) {
	t.Helper()
	if i := bytes.IndexAny(got, "\n\r\u0085\u2028\u2029\v\f"); i >= 0 {
		t.Errorf("a line end at %d", i)
	}
	if !json.Valid(got) {
		t.Error("not JSON")
	}
}
