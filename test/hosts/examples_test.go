//go:build linux

package hosts_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"innerd/test/agents"
	"innerd/test/modelstub"
	"innerd/test/proxy"
)

// wants fails the test unless a program said all of it, in this order.
func wants(t testing.TB, got string, want ...string) {
	t.Helper()
	rest := got
	for _, w := range want {
		_, after, ok := strings.Cut(rest, w)
		if !ok {
			t.Fatalf("no %q, in this place, in\n%s", w, got)
		}
		rest = after
	}
}

func TestMinimal(t *testing.T) {
	t.Parallel()
	s := newServer(t, "--backend", "simulate")
	s.Start()
	out, errOut, code := ran(t, example(t, s.URL(), s.Key(), "minimal", "hello \u2028 😀"))
	if code != 0 || out != "hello \u2028 😀\n" {
		t.Errorf("exit code %d, %q, %s", code, out, errOut)
	}
	if _, errOut, code = ran(t, example(t, s.URL(), "wrong", "minimal", "hello")); code == 0 || !strings.Contains(errOut, "401") {
		t.Errorf("a wrong key: exit code %d, %s", code, errOut)
	}
	source, err := os.ReadFile(filepath.Join("..", "..", "examples", "minimal", "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	if _, program, _ := strings.Cut(string(source), "package main"); strings.Count(program, "\n") > 30 {
		t.Errorf("the program has %d lines", strings.Count(program, "\n"))
	}
}

// Three tools, and a second turn that fails in the middle: the host goes on
// from where the agent stopped.
func TestFallbackExample(t *testing.T) {
	t.Parallel()
	s := scripted(t, `[
		{"call":{"tool":"temperature","arguments":{"city":"Oslo"}}},
		{"calls":[{"tool":"forecast","arguments":{"city":"Oslo","days":3,"unit":"celsius"}},{"tool":"map","arguments":{"city":"Oslo"}}]},
		{"call":{"tool":"forecast","arguments":{"city":"Oslo","days":9}}},
		{"usage":{"input_tokens":3,"output_tokens":4}},
		{"text":"It is cold."}]`)
	out, errOut, code := ran(t, example(t, s.URL(), s.Key(), "fallback", "How warm is it?"))
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, errOut)
	}
	// Simulate says what it was given, one message for each round of calls.
	wants(t, out, `[temperature {"city":"Oslo"}]`, "[forecast ", "It is cold.", "[billed to a2a:simulate]", "the breaker is closed")
	if strings.Contains(out, "native") {
		t.Errorf("%s", out)
	}

	f := scripted(t, `[{"call":{"tool":"temperature","arguments":{"city":"Oslo"}}},{"text":"It is"},{"error":{"error_type":"rate_limit","message":"too much"}}]`)
	out, errOut, code = ran(t, example(t, f.URL(), f.Key(), "fallback", "How warm is it?", "And now?"))
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, errOut)
	}
	wants(t, out, `[temperature {"city":"Oslo"}]`, "It is", "[native from ", "rate limit: ", "the breaker is open for", "And from here myself: 4 degrees in Rome", "[billed to native]",
		"[native from 0: ", "I answer myself: 4 degrees in Rome", "the breaker is open for")
	if strings.Contains(out, "a2a:") {
		t.Errorf("a failed answer was billed: %s", out)
	}

	f.Stop()
	_, errOut, code = ran(t, exampleAt(t, f.URL(), f.Key(), "fallback", "Anybody there?")) // a proxy would be there
	if code == 0 || !strings.Contains(errOut, "no server at") {
		t.Errorf("without a server: exit code %d, %s", code, errOut)
	}
}

func TestPermissionExample(t *testing.T) {
	t.Parallel()
	s := scripted(t, `[
		{"permission":{"tool":"shell","input":{"command":"ls"},"output":"a file"}},
		{"call":{"tool":"remove","arguments":{"path":"a"}}},
		{"call":{"tool":"send","arguments":{"item":"tea"}}},
		{"ask":{"message":"Which color?","schema":{"type":"string","enum":["red","blue"]}}},
		{"text":"Done."}]`)
	for _, c := range []struct{ answers, want string }{
		{"yes\nyes\nRome\ngreen\nred\n", `may the agent run shell {"command":"ls"}?|really remove {"path":"a"}?|removed a|where to, for {"item":"tea"}?|sent tea to Rome|Which color?|Which color? |red|Done.`},
		{"no\nno\nOslo\nblue\n", `may the agent run|really remove|the user declined|where to|sent tea to Oslo|Which color?|Done.`},
	} {
		cmd := example(t, s.URL(), s.Key(), "permission", "Clean up")
		cmd.Stdin = strings.NewReader(c.answers)
		out, errOut, code := ran(t, cmd)
		if code != 0 {
			t.Fatalf("exit code %d: %s\n%s", code, errOut, out)
		}
		wants(t, out, strings.Split(c.want, "|")...)
	}
}

func TestCouncilExample(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.Start()
	out, errOut, code := ran(t, example(t, s.URL(), s.Key(), "council", "-members", "simulate:first,simulate:second,nobody", "-chair", "simulate", "Why?"))
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, errOut)
	}
	for _, want := range []string{"simulate/first: Why?\n", "simulate/second: Why?\n", "nobody failed: ", "<answer from=\"simulate/first\">\nWhy?", "\ncost: $"} {
		wants(t, out, want)
	}
}

// wires are the hosts that are not Go's.
var wires = []string{"python/host.py", "typescript/host.mjs"}

// A turn with two calls of the host's function, one of which fails, over
// connections that break in every way: the text comes once.
func TestOtherLanguages(t *testing.T) {
	t.Parallel()
	s := scripted(t, `[
		{"reasoning":"hm"},
		{"calls":[{"tool":"weather","arguments":{"city":"Oslo"}},{"tool":"weather","arguments":{"city":"Atlantis"}}]},
		{"text":"haha \u2028 \ud83d\ude00 and so on, and so on, until it is all said.","chunk_bytes":2}]`)
	for _, name := range wires {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole, errOut, code := ran(t, example(t, s.URL(), s.Key(), name, "go"))
			if code != 0 {
				t.Fatalf("exit code %d: %s", code, errOut)
			}
			wants(t, whole, "haha \u2028 😀 and so on, and so on, until it is all said.\n")
			wants(t, errOut, "[weather ", "[weather ")
			if strings.Contains(errOut, "resumed") {
				t.Errorf("%s", errOut)
			}
			// In the answer's head, in the first events, in the middle, near the end.
			c := proxy.New(t, s.URL, proxy.Cuts(0, 10, 300, 500, 700, 900, 1500, 400, 401, 402)...)
			out, errOut, code := ran(t, example(t, c.URL(), s.Key(), name, "go"))
			if code != 0 || out != whole {
				t.Errorf("exit code %d\n got %q\nwant %q\n%s", code, out, whole, errOut)
			}
			wants(t, errOut, "[resumed after event 0: ", "[resumed after event ")
			if n, _ := c.Happened(); n < 8 {
				t.Errorf("%d connections were cut", n)
			}
			if _, errOut, code = ran(t, example(t, s.URL(), "wrong", name, "go")); code == 0 || !strings.Contains(errOut, "401") {
				t.Errorf("a wrong key: exit code %d, %s", code, errOut)
			}
		})
	}
}

// A failed run is a failure of the program too.
func TestOtherLanguagesFail(t *testing.T) {
	t.Parallel()
	s := scripted(t, `[{"error":{"error_type":"quota","message":"no more"}}]`)
	for _, name := range wires {
		if _, errOut, code := ran(t, example(t, s.URL(), s.Key(), name, "go")); code != 1 || !strings.Contains(errOut, "rate limit (quota): no more") {
			t.Errorf("%s: exit code %d, %s", name, code, errOut)
		}
	}
}

// Each of them lends its function to the real Claude Code.
func TestOtherLanguagesWithClaude(t *testing.T) {
	t.Parallel()
	stub := modelstub.New()
	t.Cleanup(stub.Close)
	claude := agents.Claude(t).Path
	for _, name := range append(wires, "minimal") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			turns := []modelstub.Turn{
				modelstub.Say(modelstub.Text("I look."), modelstub.Tool("mcp__host__weather", map[string]any{"city": "Oslo"})),
				modelstub.Say(modelstub.Text("It says {{tool_result}}, and no more.")),
			}
			want := "It says 4 degrees in Oslo, and no more."
			if name == "minimal" {
				turns, want = []modelstub.Turn{modelstub.Say(modelstub.Text("Good day."))}, "Good day.\n"
			}
			sc := stub.Scenario(turns...)
			s := newServer(t, "--backend", "claude-code")
			s.Env = append(s.Env, "INNERD_CLAUDE_CODE_PATH="+claude, "INNERD_CLAUDE_CODE_API_KEY="+sc.Key(), "INNERD_CLAUDE_CODE_BASE_URL="+sc.BaseURL())
			s.Start()
			out, errOut, code := ran(t, example(t, s.URL(), s.Key(), name, "go"))
			if code != 0 || !strings.Contains(out, want) {
				t.Errorf("exit code %d, %q, %s", code, out, errOut)
			}
			if n := sc.Count(); n != len(turns) {
				t.Errorf("the model was asked %d times", n)
			}
		})
	}
}

// Leaving the run ends it: the host's interrupt reaches the agent.
func TestInterruptedHostCancels(t *testing.T) {
	t.Parallel()
	s := scripted(t, `[{"text":"I say this and","chunk_bytes":4,"delay_ms":50},{"stall":true}]`)
	cmd := example(t, s.URL(), s.Key(), "fallback", "go")
	var out bytes.Buffer
	said := newWatch(&out, "I say this and")
	cmd.Stdout = said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-said.seen
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it failed, as it should
	var page struct {
		Tasks []struct{ Status struct{ State string } }
	}
	s.Do("GET", "/tasks", nil, &page)
	if len(page.Tasks) != 1 || page.Tasks[0].Status.State != "canceled" {
		t.Errorf("%+v", page)
	}
}
