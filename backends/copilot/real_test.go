package copilot_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/backends/copilot"
	"innerd/events"
	"innerd/test/copilotscript"
	"innerd/test/modelstub"
)

// openSeat opens a conversation of a seat on the real CLI.
func openSeat(t *testing.T, b *copilot.Backend, s *seat, change func(*backends.Config)) backends.Conversation {
	t.Helper()
	cfg := s.Config()
	cfg.ID, cfg.Dir, cfg.Grace = "01TESTTESTTESTTESTTESTTEST", t.TempDir(), 3*time.Second
	cfg.Save = func(backends.Session) error { return nil }
	if change != nil {
		change(&cfg)
	}
	c, err := b.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(t.Context()) })
	return c
}

// TestReal are the properties of the real CLI that the suite does not ask for,
// in one process.
func TestReal(t *testing.T) {
	b := newBench(t)
	backend := b.backend()
	t.Cleanup(func() {
		if err := backend.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	t.Run("providers", func(t *testing.T) { realProviders(t, b, backend) })
	t.Run("setsid", func(t *testing.T) { realSetsid(t, b, backend) })
	t.Run("images", func(t *testing.T) { realImages(t, b, backend) })
	t.Run("modes", func(t *testing.T) { realModes(t, b, backend) })
	t.Run("attachments", func(t *testing.T) { realAttachments(t, b, backend) })
	t.Run("large result", func(t *testing.T) { realLarge(t, b, backend) })
	t.Run("detached", func(t *testing.T) { realDetached(t, b, backend) })
	t.Run("stopped", func(t *testing.T) { realStopped(t, b) })
	t.Run("github", func(t *testing.T) { realGitHub(t, b) })
}

// realProviders: every API that the CLI knows, with text, thinking, a call and
// counts that do not overlap.
func realProviders(t *testing.T, b *bench, backend *copilot.Backend) {
	for provider, base := range map[string]func(*modelstub.Scenario) string{
		"openai-responses": (*modelstub.Scenario).V1, "anthropic": (*modelstub.Scenario).BaseURL, "azure": azure(t),
	} {
		t.Run(provider, func(t *testing.T) {
			s := b.seat(t)
			model := "gpt-5.4"
			if provider == "anthropic" {
				model = "claude-sonnet-4.5"
			}
			use := modelstub.Usage{Input: 50, CacheRead: 1000, Output: 30, Thinking: 10}
			s.sc.Add(modelstub.Say(modelstub.Thinking("I think."), modelstub.Tool("lookup", map[string]any{"n": 1})).Uses(use))
			s.sc.Add(modelstub.Say(modelstub.Text("It is so.")).Uses(use))
			c := openSeat(t, backend, s, func(cfg *backends.Config) {
				cfg.Credential = &backends.Credential{Key: benchKey, BaseURL: base(s.sc), Provider: provider, Model: model}
			})
			reply := backendtest.Reply{Kind: events.KindTool, Answer: events.Answer{Outcome: events.OutcomeOK, Result: "the result"}}
			rec, out, err := run(t, t.Context(), c, backendtest.Turn{Host: backendtest.Host{Replies: []backendtest.Reply{reply}}},
				backends.Settings{Tools: []backends.Tool{{Name: "lookup", Parallel: true, Schema: json.RawMessage(`{"type":"object"}`)}}})
			if err != nil || out.Reason != backends.ReasonEndTurn || strings.Join(messages(rec), "|") != "It is so." || count(rec, events.TypeReasoning) != 1 {
				t.Fatalf("%+v, %v\n%s", out, err, backendtest.Dump(rec.Events()))
			}
			for _, e := range rec.Events() {
				if u, ok := e.Data.(events.Usage); ok && (*u.InputTokens != 100 || *u.CacheReadTokens != 2000) {
					t.Errorf("%s", backendtest.Dump(rec.Events()))
				}
			}
			if r, ok := s.last(); !ok || !strings.Contains(copilotscript.Heard(r), "the result") || r.Model != model {
				t.Error("the model did not hear the result")
			}
		})
	}
}

// azure gives the address of a resource: the CLI adds openai/v1 to it.
func azure(t *testing.T) func(*modelstub.Scenario) string {
	return func(sc *modelstub.Scenario) string {
		target, err := url.Parse(sc.BaseURL())
		if err != nil {
			t.Fatal(err)
		}
		proxy := httputil.NewSingleHostReverseProxy(target)
		srv := httptest.NewServer(http.StripPrefix("/openai", proxy))
		t.Cleanup(srv.Close)
		return srv.URL
	}
}

// realSetsid: a command that has left its session ends with a canceled turn,
// and that of the conversation beside it does not.
func realSetsid(t *testing.T, b *bench, backend *copilot.Backend) {
	allow := backendtest.Reply{Kind: events.KindPermission, Many: true, Answer: events.Answer{Outcome: events.OutcomeAllowed}}
	begin := func(seconds string, cancel backendtest.Cancel) (*seat, backends.Conversation, backendtest.Turn) {
		s := b.seat(t)
		s.sc.Add(modelstub.Say(modelstub.Tool("bash", map[string]any{"command": "setsid sleep " + seconds + " & echo started; sleep 40", "description": "d"})))
		s.sc.Add(modelstub.Say(modelstub.Text("done")))
		return s, openSeat(t, backend, s, nil), backendtest.Turn{Host: backendtest.Host{Replies: []backendtest.Reply{allow}, Cancel: cancel}}
	}
	_, other, otherTurn := begin("411", backendtest.Cancel{})
	beside := make(chan error, 1)
	otherCtx := t.Context()
	go func() { // ends when its conversation is closed
		rec := backendtest.NewRecorder(otherTurn, nil, nil)
		_, err := other.Run(otherCtx, backends.Input{Parts: []events.Part{events.Text("x")}}, rec)
		rec.Close()
		beside <- err
	}()
	awaitProcess(t, "sleep 411", true)
	_, c, turn := begin("412", backendtest.Cancel{On: events.TypeToolUpdate})
	start := time.Now()
	if _, err := runCanceled(t, c, turn); err == nil {
		t.Error("it was not canceled")
	}
	if alive("sleep 412") {
		t.Error("what the canceled turn had started still runs")
	}
	if !alive("sleep 411") {
		t.Error("what the turn beside it had started does not run")
	}
	t.Logf("run and cancel with a sweep: %v", time.Since(start))
	if err := other.Close(t.Context()); err != nil {
		t.Error(err)
	}
	<-beside
	awaitProcess(t, "sleep 411", false)
}

func alive(command string) bool { return exec.Command("pgrep", "-f", "^"+command+"$").Run() == nil }

func awaitProcess(t *testing.T, command string, want bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); alive(command) != want; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: alive is not %v", command, want)
		}
	}
}

// realImages: all images of a prompt reach the model, in their order.
func realImages(t *testing.T, b *bench, backend *copilot.Backend) {
	s := b.seat(t)
	s.sc.Add(modelstub.Say(modelstub.Text("Three.")))
	rec := backendtest.NewRecorder(backendtest.Turn{}, nil, nil)
	var parts []events.Part
	for range 3 {
		parts = append(parts, events.Part{Type: events.PartImage, MimeType: "image/png", Data: backendtest.Image})
	}
	big := filepath.Join(t.TempDir(), "big.png")
	if err := os.WriteFile(big, make([]byte, 11<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	parts = append(parts, events.Part{Type: events.PartImage, MimeType: "image/png", Path: big},
		events.Part{Type: events.PartImage, MimeType: "image/svg+xml", Name: "x.svg", Data: base64.StdEncoding.EncodeToString([]byte("<svg/>"))})
	_, err := openSeat(t, backend, s, nil).Run(t.Context(), backends.Input{Parts: parts}, rec)
	rec.Close()
	r, _ := s.last()
	heard := copilotscript.Heard(r)
	if err != nil || strings.Count(heard, backendtest.Image) != 3 || !strings.Contains(heard, big) || !strings.Contains(heard, "x.svg") {
		t.Errorf("%v, %d images", err, strings.Count(heard, backendtest.Image))
	}
}

// realLarge: of a result that is too long the model gets the beginning and a
// file, which is not in the system's folder and gone with the conversation.
func realLarge(t *testing.T, b *bench, backend *copilot.Backend) {
	s := b.seat(t)
	s.sc.Add(modelstub.Say(modelstub.Tool("lookup", map[string]any{})), modelstub.Say(modelstub.Text("Long.")))
	c := openSeat(t, backend, s, nil)
	reply := backendtest.Reply{Kind: events.KindTool, Answer: events.Answer{Outcome: events.OutcomeOK, Result: strings.Repeat("long ", 1<<16)}}
	if _, _, err := run(t, t.Context(), c, backendtest.Turn{Host: backendtest.Host{Replies: []backendtest.Reply{reply}}},
		backends.Settings{Tools: []backends.Tool{{Name: "lookup", Parallel: true}}}); err != nil {
		t.Fatal(err)
	}
	r, _ := s.last()
	files, _ := filepath.Glob(filepath.Join(b.home, "copilot", "outputs", "*", "*.txt"))
	if heard := copilotscript.Heard(r); len(files) != 1 || !strings.Contains(heard, files[0]) || len(r.ToolResult()) > 20<<10 {
		t.Errorf("%q, a result of %d bytes", files, len(r.ToolResult()))
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(b.home, "copilot", "outputs", "*")); len(left) > 0 && strings.HasPrefix(files[0], left[0]) {
		t.Errorf("%q is left", left)
	}
}

// realGitHub: a token reaches GitHub in a header and the account's model
// answers; a run costs what its user's input does, however many requests the
// agent makes of it. The token is in no file and no process of the agent's.
func realGitHub(t *testing.T, b *bench) {
	s := b.seat(t)
	s.sc.Accept("gho_dummy")
	s.sc.Add(modelstub.Say(modelstub.Tool("bash", map[string]any{
		"command": "env; cat /proc/$PPID/environ /proc/$PPID/cmdline | tr '\\0' '\\n'; echo END", "description": "d",
	})), modelstub.Say(modelstub.Text("Here.")))
	target, err := url.Parse(s.sc.V1())
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(gitHub(httputil.NewSingleHostReverseProxy(target)))
	t.Cleanup(srv.Close)
	for k, v := range map[string]string{
		"COPILOT_API_URL": srv.URL, "COPILOT_DEBUG_GITHUB_API_URL": srv.URL, "HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1",
	} {
		t.Setenv(k, v)
	}
	kids := backends.NewChildren(backends.ChildrenOptions{Inherit: []string{"COPILOT_API_URL", "COPILOT_DEBUG_GITHUB_API_URL"}})
	t.Cleanup(func() { _ = kids.Close(t.Context()) })
	home, dir := t.TempDir(), t.TempDir()
	backend := copilot.New(&copilot.Options{
		Path: b.wrapper, Home: home, Children: kids, Getenv: env(map[string]string{"GITHUB_TOKEN": "gho_dummy"}),
	})
	t.Cleanup(func() { _ = backend.Close(t.Context()) })
	c := openSeat(t, backend, s, func(cfg *backends.Config) { cfg.Credential, cfg.Env, cfg.Dir = nil, nil, dir })
	allow := backendtest.Reply{Kind: events.KindPermission, Many: true, Answer: events.Answer{Outcome: events.OutcomeAllowed}}
	rec, _, err := run(t, t.Context(), c, backendtest.Turn{Host: backendtest.Host{Replies: []backendtest.Reply{allow}}}, backends.Settings{Model: "gpt-5.4"})
	if err != nil || strings.Join(messages(rec), "|") != "Here." {
		t.Fatalf("%v\n%s", err, backendtest.Dump(rec.Events()))
	}
	for _, e := range rec.Events() {
		if u, ok := e.Data.(events.Usage); ok && (u.PremiumRequests == nil || *u.PremiumRequests != 1 || *u.PremiumRequestsExact != 0.33) {
			t.Errorf("%s", backendtest.Dump(rec.Events()))
		}
	}
	r, _ := s.last()
	if saw := r.ToolResult(); !strings.Contains(saw, "COPILOT_HOME="+home) || !strings.Contains(saw, "END") || strings.Contains(saw, "gho_dummy") {
		t.Errorf("a command saw %q", saw)
	}
	inProcesses(t, "gho_dummy", home)
	inFiles(t, "gho_dummy", home, dir)
	if err := errors.Join(c.Close(t.Context()), backend.Close(t.Context())); err != nil {
		t.Error(err)
	}
	inFiles(t, "gho_dummy", home, dir) // nor in what is written at the end
}

// gitHub is as much of GitHub as the CLI needs; models answers for its models.
func gitHub(models http.Handler) http.Handler {
	mux := http.NewServeMux()
	answer := func(v any) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(v)
		}
	}
	mux.HandleFunc("GET /copilot_internal/user", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer gho_dummy" {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		self := "http://" + r.Host
		answer(map[string]any{
			"login": "me", "copilot_plan": "individual_pro", "chat_enabled": true, "is_mcp_enabled": false,
			"endpoints": map[string]string{"api": self, "telemetry": self},
		})(w, r)
	})
	mux.HandleFunc("GET /models", answer(map[string]any{"data": []any{map[string]any{
		"id": "gpt-5.4", "name": "GPT-5.4", "object": "model", "vendor": "OpenAI", "version": "gpt-5.4", "model_picker_enabled": true,
		"policy": map[string]any{"state": "enabled"}, "billing": map[string]any{"is_premium": true, "multiplier": 0.33},
		"supported_endpoints": []string{"/chat/completions"},
		"capabilities": map[string]any{
			"family": "gpt-5.4", "type": "chat", "object": "model_capabilities", "tokenizer": "o200k_base",
			"limits":   map[string]any{"max_context_window_tokens": 128000, "max_prompt_tokens": 128000, "max_output_tokens": 16000},
			"supports": map[string]any{"streaming": true, "tool_calls": true, "parallel_tool_calls": true, "vision": true},
		},
	}}}))
	mux.Handle("POST /chat/completions", models)
	return mux
}

// runCanceled plays a turn that its Host cancels.
func runCanceled(t *testing.T, c backends.Conversation, turn backendtest.Turn) (*backendtest.Recorder, error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	rec := backendtest.NewRecorder(turn, nil, func() { cancel(backends.ErrCanceled) })
	_, err := c.Run(ctx, backends.Input{Parts: []events.Part{events.Text("x")}}, rec)
	rec.Close()
	return rec, err
}
