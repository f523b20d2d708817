package innerd_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// rooms says which packages of this module each room may import, and why the
// others are out. A room not named here may not exist.
var rooms = []struct {
	room    string // the folder, or a folder and all below it with /...
	imports string // space separated; "name/..." is the folder and all below
	why     string
}{
	{"events", "", "events is the vocabulary that everything speaks: it can know nothing"},
	{"events/sse", "events", "a frame is an event on the wire, nothing more"},
	{"events/mcpjson", "events", "pure translation between events and MCP JSON"},
	{"events/journal", "events", "the log knows what can happen in a run, not why"},
	{"backends", "events backends/internal/proc", "what an agent is, for every agent; no concrete one"},
	{"backends/internal/proc", "", "a child process knows nothing of agents or runs"},
	{"backends/internal/rpc", "backends/internal/proc", "JSON-RPC over pipes knows nothing of agents or runs"},
	{"backends/internal/cli", "backends backends/internal/proc", "how an agent's program is found, whichever it is"},
	{"backends/internal/told", "events backends", "what every agent makes of a prompt, whichever it is"},
	{"backends/backendtest", "events backends", "what every backend must do, whichever it is"},
	{"backends/simulate", "events backends backends/internal/...", "one agent each: translation, nothing else, never another agent"},
	{"backends/claudecode/internal/...", "events", "pure parts of one agent's translation"},
	{"backends/claudecode", "events events/mcpjson backends backends/internal/... backends/claudecode/internal/...", "one agent each: translation, nothing else, never another agent"},
	{"backends/codex", "events events/mcpjson backends backends/internal/...", "one agent each: translation, nothing else, never another agent"},
	{"backends/copilot", "events events/mcpjson backends backends/internal/...", "one agent each: translation, nothing else, never another agent"},
	{"toolbridge", "events events/mcpjson", "a request that waits for the host does not know which agent made it"},
	{"telemetry", "", "traces and histograms: what measures knows nothing of what is measured"},
	{"runs", "events events/journal backends toolbridge runs/... telemetry", "the life of a turn knows no concrete agent and no HTTP"},
	{"runs/history", "events", "pure: what an agent already knows"},
	{"runs/redact", "events", "pure: secrets out of what agents say"},
	{"adapter", "events events/journal events/sse backends runs runs/history toolbridge adapter/api adapter/apart adapter/published telemetry", "HTTP only, over runs"},
	{"adapter/apart", "", "a stack of its own knows nothing of what is done on it"},
	{"adapter/published", "", "documents that the server gives away: files"},
	{"adapter/openapi", "events adapter/api adapter/a2a/spec", "the description of the HTTP API, from which the published documents are made; nothing of the server needs it"},
	{"adapter/netguard", "", "which addresses a URL of somebody else may lead to knows nothing of what is asked there"},
	{"adapter/registry", "adapter/netguard", "a list of other agents' cards knows nothing of runs"},
	{"adapter/a2a", "events events/journal backends runs runs/history toolbridge adapter/a2a/spec adapter/a2a/extension adapter/a2a/push adapter/apart adapter/api telemetry", "the standard A2A binding over runs; cmd mounts it beside the host-loop profile"},
	{"adapter/a2a/spec", "", "the protocol as types knows nothing of this server"},
	{"adapter/a2a/extension", "", "the extension as types, for clients too"},
	{"adapter/a2a/push", "adapter/netguard adapter/a2a/spec", "delivery of notifications knows nothing of runs: it is given what to send"},
	{"adapter/a2a/sdk", "adapter/a2a adapter/a2a/spec adapter/a2a/extension", "gRPC and 0.3 through the official SDK's adapters, over our own core"},
	{"adapter/api", "events", "the JSON bodies, shared with hosts on every platform"},
	{"host", "adapter/api events events/sse host/billing", "a host links nothing of the server"},
	{"host/billing", "events", "pure: what a run costs, from what it used"},
	{"examples/...", "host host/... adapter/api events", "what a host needs, and nothing of the server"},
	{"cmd/...", "...", "cmd wires everything"},
	{"image", "", "what goes into the image is files"},
	{"image/entrypoint", "backends", "process 1 starts and ends processes; it knows no agent and no network"},
	{"test/...", "...", "tests look from outside, at anything"},
}

func TestLayers(t *testing.T) {
	found := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "node_modules" || d.Name() == "zz_trial") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		found++
		checkFile(t, path)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 20 {
		t.Fatalf("only %d Go files found; is the test run at the root of the module?", found)
	}
}

func checkFile(t *testing.T, path string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		t.Errorf("%s: %v", path, err)
		return
	}
	dir := filepath.ToSlash(filepath.Dir(path))
	for _, imp := range f.Imports {
		name, _ := strconv.Unquote(imp.Path.Value)
		target, ours := strings.CutPrefix(name, "innerd/")
		if !ours {
			continue
		}
		if reason := forbidden(dir, target); reason != "" {
			t.Errorf("%s imports %s: %s", path, target, reason)
		}
	}
}

// forbidden gives the reason why dir may not import target, "" if it may.
func forbidden(dir, target string) string {
	for _, r := range rooms {
		if !within(dir, r.room) {
			continue
		}
		for _, allowed := range strings.Fields(r.imports) {
			if within(target, allowed) {
				return ""
			}
		}
		return r.why
	}
	return "this folder is not a room; say in layers_test.go what it is for"
}

func within(dir, room string) bool {
	if base, deep := strings.CutSuffix(room, "..."); deep {
		base = strings.TrimSuffix(base, "/")
		return base == "" || dir == base || strings.HasPrefix(dir, base+"/")
	}
	return dir == room
}

func TestLayersFindsAWrongArrow(t *testing.T) {
	for _, c := range []struct{ dir, target string }{
		{"events", "runs"},
		{"toolbridge", "backends"},
		{"runs", "backends/simulate"},
		{"backends/simulate", "backends/claudecode"},
		{"host", "runs"},
		{"nowhere", "events"},
	} {
		if forbidden(c.dir, c.target) == "" {
			t.Errorf("%s may import %s; it must not", c.dir, c.target)
		}
	}
}
