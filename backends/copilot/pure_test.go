package copilot_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"innerd/backends"
	"innerd/backends/copilot"
	"innerd/events"
)

func TestNames(t *testing.T) {
	long := strings.Repeat("x", 90)
	listed, told := copilot.Names("plain", "a.b", "a_b", "ü", "", long, long+"y")
	for i, n := range listed {
		if n == "" || len(n) > 64 || slices.Index(listed, n) != i {
			t.Errorf("%q in %q", n, listed)
		}
	}
	if listed[0] != "plain" || strings.Contains(told, `"plain"`) || !strings.Contains(told, `"a.b" in instructions and by the user is the tool a_b.`) {
		t.Errorf("%q, %q", listed, told)
	}
}

func TestChooseModel(t *testing.T) {
	for _, c := range []struct{ provider, configured, base, wanted, model, foreign string }{
		{"openai", "", "http://gateway/v1", "", "gpt-5.4", ""},
		{"anthropic", "", "https://api.anthropic.com", "", "claude-sonnet-4.5", ""},
		{"openai", "mine", "http://gateway/v1", "claude-x", "claude-x", ""},
		{"openai", "mine", "https://api.openai.com/v1", "claude-x", "mine", "claude-x"},
		{"anthropic", "mine", "https://api.anthropic.com", "gpt-5", "mine", "gpt-5"},
		{"github", "", "", "claude-x", "claude-x", ""},
		{"github", "", "", "", "", ""},
	} {
		if m, f := copilot.ChooseModel(c.provider, c.configured, c.base, c.wanted); m != c.model || f != c.foreign {
			t.Errorf("%+v: %q, %q", c, m, f)
		}
	}
}

// TestHostResult: never empty, never an error without its words.
func TestHostResult(t *testing.T) {
	image := events.Part{Type: events.PartImage, MimeType: "image/png", Data: "AAAA"}
	for name, c := range map[string]struct {
		a      events.Answer
		text   string
		kind   string
		images int
	}{
		"text":     {events.Answer{Outcome: events.OutcomeOK, Result: "yes"}, "yes", "success", 0},
		"empty":    {events.Answer{Outcome: events.OutcomeOK}, "(no output)", "success", 0},
		"error":    {events.Answer{Outcome: events.OutcomeError, IsError: true, Result: "no"}, "no", "failure", 0},
		"wordless": {events.Answer{Outcome: events.OutcomeError, IsError: true}, "The tool failed without a word.", "failure", 0},
		"timeout":  {events.Answer{Outcome: events.OutcomeTimeout}, "The tool did not answer in time.", "failure", 0},
		"image":    {events.Answer{Outcome: events.OutcomeOK, Content: []events.Part{image}}, "(an image)", "success", 1},
		"parts":    {events.Answer{Outcome: events.OutcomeOK, Content: []events.Part{events.Text("a"), image, {Type: events.PartJSON, JSON: []byte(`{"b":1}`)}}}, "a\n{\"b\":1}", "success", 1},
		"path":     {events.Answer{Outcome: events.OutcomeOK, Content: []events.Part{{Type: events.PartFile, Path: "/x/y.bin"}}}, "[attached file: /x/y.bin]", "success", 0},
	} {
		if text, kind, images := copilot.HostResult(c.a); text != c.text || kind != c.kind || images != c.images {
			t.Errorf("%s: %q, %s, %d", name, text, kind, images)
		}
	}
}

func TestClass(t *testing.T) {
	for _, c := range []struct {
		kind, code string
		status     int
		text       string
		want       string
	}{
		{"authentication", "", 401, "x", events.ErrAuth},
		{"query", "", 403, "x", events.ErrAuth},
		{"query", "", 0, "No GitHub OAuth token or Copilot HMAC key provided", events.ErrAuth},
		{"rate_limit", "", 429, "slow down", events.ErrRateLimit},
		{"rate_limit", "insufficient_quota", 429, "x", events.ErrQuota},
		{"quota", "", 402, "You have no premium requests left", events.ErrQuota},
		{"query", "", 400, "This model's maximum context length is 1000 tokens", events.ErrContextLength},
		{"query", "", 404, "x", events.ErrModelUnavailable},
		{"query", "", 400, "x", events.ErrInvalidRequest},
		{"query", "", 503, "x", events.ErrOverloaded},
		{"query", "", 0, "Could not connect to local model provider", events.ErrOverloaded},
		{"query", "", 0, "No response was returned. Send your message again to retry.", events.ErrEmptyTurn},
		{"query", "", 504, "x", events.ErrTimeout},
	} {
		if got := copilot.Class(c.kind, c.code, c.status, c.text); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

func TestRetryAfterIn(t *testing.T) {
	at := time.Date(2026, 11, 28, 8, 0, 0, 0, time.UTC)
	const line = `2026-11-28T08:00:00.429Z [WARNING] [rust:model_events::producer] Model provider request failed {"http_status":429,"retry_after_ms":120000}` + "\n"
	if d := copilot.RetryAfterIn([]byte("garbage\n"+line), at); d != 2*time.Minute {
		t.Error(d)
	}
	if d := copilot.RetryAfterIn([]byte(line), at.Add(time.Minute)); d != 0 {
		t.Errorf("an old one: %v", d)
	}
	if d := copilot.RetryAfterIn([]byte("2026-11-28T08:00:00.429Z Model provider request failed {\n"), at); d != 0 {
		t.Errorf("a broken one: %v", d)
	}
}

func TestGitRoot(t *testing.T) {
	dir := t.TempDir()
	below := filepath.Join(dir, "a", "b")
	if err := os.MkdirAll(below, 0o755); err != nil {
		t.Fatal(err)
	}
	if root := copilot.GitRoot(below); root != "" {
		t.Errorf("%q", root)
	}
	if err := os.Mkdir(filepath.Join(dir, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	if root := copilot.GitRoot(below); root != dir {
		t.Errorf("%q", root)
	}
}

// TestAccess: which key goes to which address.
func TestAccess(t *testing.T) {
	home := t.TempDir()
	vendor := filepath.Join(home, ".copilot")
	if err := os.MkdirAll(vendor, 0o700); err != nil {
		t.Fatal(err)
	}
	config := "// User settings belong in settings.json.\n{\"copilotTokens\":{\"github.com:me\":\"gho_x\"},\"trustedFolders\":[\"/\"]}\n"
	if err := os.WriteFile(filepath.Join(vendor, "config.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		env  map[string]string
		own  *backends.Credential
		want [4]string // provider, key, address, kind
	}{
		"nothing":                  {nil, nil, [4]string{"github", "", "", "none"}},
		"ours":                     {map[string]string{"INNERD_COPILOT_API_KEY": "k", "GITHUB_TOKEN": "g"}, nil, [4]string{"openai", "k", "https://api.openai.com/v1", "key"}},
		"ours, another API":        {map[string]string{"INNERD_COPILOT_API_KEY": "k", "INNERD_COPILOT_PROVIDER": "anthropic"}, nil, [4]string{"anthropic", "k", "https://api.anthropic.com", "key"}},
		"ours, a token":            {map[string]string{"INNERD_COPILOT_API_KEY": "g", "INNERD_COPILOT_PROVIDER": "github", "INNERD_COPILOT_BASE_URL": "http://x"}, nil, [4]string{"github", "g", "", "key"}},
		"the vendor's":             {map[string]string{"COPILOT_PROVIDER_BASE_URL": "http://v", "COPILOT_PROVIDER_API_KEY": "v", "COPILOT_PROVIDER_TYPE": "openai", "COPILOT_PROVIDER_WIRE_API": "responses"}, nil, [4]string{"openai-responses", "v", "http://v", "key"}},
		"a provider without a key": {map[string]string{"INNERD_COPILOT_BASE_URL": "http://local/v1"}, nil, [4]string{"openai", "", "http://local/v1", "key"}},
		"no token to a provider":   {map[string]string{"INNERD_COPILOT_BASE_URL": "http://local/v1", "GITHUB_TOKEN": "g"}, nil, [4]string{"openai", "", "http://local/v1", "key"}},
		"GitHub":                   {map[string]string{"GITHUB_TOKEN": "g", "GH_TOKEN": "h"}, nil, [4]string{"github", "g", "", "key"}},
		"GitHub, second name":      {map[string]string{"GH_TOKEN": "h"}, nil, [4]string{"github", "h", "", "key"}},
		"the CLI's login":          {map[string]string{"HOME": home}, nil, [4]string{"github", "", "", "login"}},
		"the request's":            {map[string]string{"GITHUB_TOKEN": "g"}, &backends.Credential{Key: "r", BaseURL: "http://r"}, [4]string{"openai", "r", "http://r", "key"}},
		"the request's token":      {nil, &backends.Credential{Key: "r", Provider: "github"}, [4]string{"github", "r", "", "key"}},
		"ours goes nowhere else":   {map[string]string{"INNERD_COPILOT_API_KEY": "k"}, &backends.Credential{BaseURL: "http://thief"}, [4]string{"openai", "", "http://thief", "none"}},
		"nor does a token":         {map[string]string{"GITHUB_TOKEN": "g"}, &backends.Credential{BaseURL: "http://thief"}, [4]string{"openai", "", "http://thief", "none"}},
	} {
		b := copilot.New(&copilot.Options{Home: t.TempDir(), Getenv: env(c.env)})
		got := b.Access(c.own)
		if [4]string(got[:4]) != c.want {
			t.Errorf("%s: %q, want %q", name, got[:4], c.want)
		}
		if (got[4] != "") != (c.want[3] == "login") {
			t.Errorf("%s: login %q", name, got[4])
		}
	}
}

// FuzzDecode: nothing that copilot prints ends more than an event.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{}`, `7`, `{"type":"assistant.message","data":{"messageId":"m","content":7}}`, `{"data":null,"type":"x"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(_ *testing.T, b []byte) { _ = copilot.Decode(b) })
}
