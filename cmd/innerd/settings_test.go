package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

func env(pairs ...string) func(string) string {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return func(name string) string { return m[name] }
}

func resolveWith(t *testing.T, args []string, getenv func(string) string) (*resolved, []string, error) {
	t.Helper()
	var warned []string
	cmd := &cobra.Command{Use: "serve"}
	addSettings(cmd, serveSettings())
	if err := cmd.ParseFlags(args); err != nil {
		return nil, nil, err
	}
	r, err := resolve(cmd, serveSettings(), getenv, func(w string) { warned = append(warned, w) })
	return r, warned, err
}

func TestPrecedence(t *testing.T) {
	field := []string{"A2A_CLAUDE_CODE_TIMEOUT", "61.5"}
	own := append([]string{"INNERD_CLAUDE_CODE_TIMEOUT", "62"}, field...)
	for _, c := range []struct {
		name string
		args []string
		env  []string
		want time.Duration
	}{
		{"default", nil, nil, 0},
		{"field", nil, field, 61500 * time.Millisecond},
		{"own variable", nil, own, 62 * time.Second},
		{"flag", []string{"--claude-code-timeout", "63s"}, own, 63 * time.Second},
		{"empty is unset", nil, append([]string{"INNERD_CLAUDE_CODE_TIMEOUT", " "}, field...), 61500 * time.Millisecond},
	} {
		r, warned, err := resolveWith(t, c.args, env(c.env...))
		if err != nil || len(warned) > 0 {
			t.Fatalf("%s: %v %v", c.name, err, warned)
		}
		if got := r.dur("claude-code-timeout"); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// What the field sets wrongly is the default with a warning, never a failed start.
func TestBadFieldVariables(t *testing.T) {
	for name, bad := range map[string][]string{
		"A2A_COPILOT_TIMEOUT":              {"0", "-1", "soon", "NaN", "1e300"},
		"A2A_CLAUDE_CODE_ACTIVITY_TIMEOUT": {"0", "-600"},
		"SANDBOX_ADAPTER_PORT":             {"0", "-1", "65536", "http"},
		"SANDBOX_ADAPTER_BACKEND":          {"gpt"},
	} {
		for _, v := range bad {
			r, warned, err := resolveWith(t, nil, env(name, v))
			if err != nil || len(warned) != 1 || !strings.Contains(warned[0], name) {
				t.Errorf("%s=%s: %v, warned %q", name, v, err, warned)
				continue
			}
			if r.dur("copilot-timeout") != 30*time.Minute || listenAddress(r) != ":18100" || r.str("backend") != "" {
				t.Errorf("%s=%s: not the defaults", name, v)
			}
		}
	}
}

func TestBadOwnSettings(t *testing.T) {
	for _, args := range [][]string{
		{"--port", "70000"},
		{"--auth", "maybe"},
		{"--turn-timeout", "0"},
		{"--max-body", "-1"},
		{"--max-runs", "x"},
		{"--fsync", "5s"},
		{"--log-format", "xml"},
		{"--backend", "gpt"},
	} {
		if _, _, err := resolveWith(t, args, env()); err == nil {
			t.Errorf("%v was taken", args)
		}
		name := "INNERD_" + strings.ToUpper(strings.ReplaceAll(args[0][2:], "-", "_"))
		if _, _, err := resolveWith(t, nil, env(name, args[1])); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s=%s: %v", name, args[1], err)
		}
	}
}

func TestListenAddress(t *testing.T) {
	for _, c := range []struct {
		args []string
		env  []string
		want string
	}{
		{nil, nil, ":18100"},
		{[]string{"--port", "1"}, nil, ":1"},
		{[]string{"--host", "127.0.0.1"}, nil, "127.0.0.1:18100"},
		{[]string{"--host", "::1", "--port", "5"}, nil, "[::1]:5"},
		{nil, []string{"SANDBOX_ADAPTER_PORT", "99"}, ":99"},
		{nil, []string{"SANDBOX_ADAPTER_PORT", "99", "INNERD_LISTEN", "127.0.0.1:7"}, "127.0.0.1:7"},
		{[]string{"--listen", "127.0.0.1:0"}, []string{"INNERD_PORT", "8", "INNERD_HOST", "0.0.0.0"}, "127.0.0.1:0"},
		{[]string{"--port", "9"}, []string{"INNERD_LISTEN", "127.0.0.1:7"}, "127.0.0.1:9"},
		{[]string{"--listen", "127.0.0.1:7", "--port", "9"}, nil, "127.0.0.1:9"},
	} {
		r, _, err := resolveWith(t, c.args, env(c.env...))
		if err != nil {
			t.Fatal(err)
		}
		if got := listenAddress(r); got != c.want {
			t.Errorf("%v %v: %s, want %s", c.args, c.env, got, c.want)
		}
	}
}

func TestValues(t *testing.T) {
	r, _, err := resolveWith(t, []string{"--agent-env", "A,B", "--agent-env", "C_*", "--max-body", "1.5MiB", "--backend", "claude_code"},
		env("INNERD_FETCH_ALLOW", "minio, 10.0.0.1 ,"))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(r.list("agent-env"), " "); got != "A B C_*" {
		t.Errorf("agent-env %q", got)
	}
	if got := strings.Join(r.list("fetch-allow"), " "); got != "minio 10.0.0.1" {
		t.Errorf("fetch-allow %q", got)
	}
	if r.bytes("max-body") != 3<<19 || r.bytes("max-log") != 2<<30 || r.int("max-runs") != 10000 {
		t.Errorf("%d %d %d", r.bytes("max-body"), r.bytes("max-log"), r.int("max-runs"))
	}
	if r.str("backend") != "claude-code" {
		t.Errorf("backend %q", r.str("backend"))
	}
}

// Every default must pass its own check, and every flag be there once.
func TestSettingsTable(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range serveSettings() {
		if s.def != "" {
			if _, err := normalize(s.kind, s.def); err != nil {
				t.Errorf("%s: %v", s.flag, err)
			}
		}
		if seen[s.flag] || s.help == "" || s.group == "" {
			t.Errorf("%s: named twice, or without help", s.flag)
		}
		seen[s.flag] = true
	}
}

// docs/operations.md says what the code does.
func TestDocsAreCurrent(t *testing.T) {
	const path = "../../docs/operations.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want, err := replaceBetween(text, docsBegin, docsEnd, settingsTable())
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != string(text) {
		t.Error("docs/operations.md is out of date: go run -tags nomsgpack ./cmd/innerd docs defaults --write docs/operations.md")
	}
	if !strings.Contains(string(text), exitHelp[strings.Index(exitHelp, "\n"):]) {
		t.Error("docs/operations.md does not have the exit codes as --help has them")
	}
}

// docs/observability.md lists the metrics that there are.
func TestMetricsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/observability.md")
	if err != nil {
		t.Fatal(err)
	}
	want, err := replaceBetween(text, metricsBegin, metricsEnd, metricsTable())
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != string(text) {
		t.Error("docs/observability.md is out of date: go run -tags nomsgpack ./cmd/innerd docs metrics --write docs/observability.md")
	}
}

// Whoever meets an error finds it in docs/operations.md: every word that a
// stream or an answer may have as its error_type has a row there.
func TestDocsNameEveryError(t *testing.T) {
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	words := errorWords(t, "../../events/errors.go", "../../adapter/api/api.go")
	if len(words) < 20 {
		t.Fatalf("only %q were found", words)
	}
	for _, w := range words {
		if !strings.Contains(string(text), "\n| `"+w+"` | ") {
			t.Errorf("docs/operations.md has no row for %s", w)
		}
	}
}

// errorWords are the values of all constants of files that begin with Err.
func errorWords(t *testing.T, files ...string) []string {
	t.Helper()
	var words []string
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || !strings.HasPrefix(spec.Names[0].Name, "Err") {
				return true
			}
			for _, v := range spec.Values {
				if lit, ok := v.(*ast.BasicLit); ok {
					words = append(words, strings.Trim(lit.Value, `"`))
				}
			}
			return true
		})
	}
	return words
}
