//go:build linux

package faults_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"innerd/events"
	"innerd/test/ledger"
	"innerd/test/modelstub"
	"innerd/test/server"
)

var update = flag.Bool("update", false, "make the golden state directory of a new version")

// golden is where the state directories of all versions are kept, as the
// builds of their time left them.
const golden = "../testdata"

// expected is what a golden state directory must hold: what readers were given
// of each run when it was made.
type expected struct {
	Ended  []string `json:"ended"`  // runs
	Killed []string `json:"killed"` // runs that the kill of the server left open
	Agent  string   `json:"agent"`  // whose runs they are
	Talk   string   `json:"talk"`   // the context of the conversation that goes on
	Said   []string `json:"said"`   // what its user and agent said, in turn
}

// everyStep is every step of the simulated agent that leaves something in the log.
const everyStep = `[
	{"reasoning":"some thought"},{"text":"a word \u00e9\u2028\ud83d\ude00"},
	{"tool":{"name":"shell","input":{"command":"ls"},"output":"a b c","exit_code":1}},
	{"change":{"kind":"create","path":"made.txt","text":"one\n"}},{"change":{"kind":"edit","path":"made.txt","old":"one","new":"two"}},
	{"subagent":{"task":"look","command":"ls","output":"x","text":"seen"}},
	{"permission":{"tool":"shell","input":{"command":"rm"}}},
	{"retry":{"text":"said again"}},
	{"background":{"command":"make","ms":1}},
	{"tool":{"name":"cat","input":{"path":"large"},"output":"%s"}},
	{"flood":{"deltas":40,"bytes":20}},
	{"usage":{"input_tokens":10,"output_tokens":5}},
	{"text":"over"}]`

// anywhere is a working directory that there is on every machine.
var anywhere = map[string]any{"cwd": "/"}

// goldens make the state directories of this build's version, by the ends of their names.
var goldens = map[string]func(*testing.T, *rig) *recording{"": recordSimulate, "-claude-code": recordClaude}

// makeGolden makes those that there are not yet: one that there is stays as a
// build of its time left it.
func makeGolden(t *testing.T) {
	for end, record := range goldens {
		t.Run("make"+end, func(t *testing.T) {
			r := newRig(t)
			k := record(t, r)
			dir := filepath.Join(golden, fmt.Sprintf("state-v%d%s", r.version(), end))
			if _, err := os.Stat(dir); err == nil {
				t.Logf("%s is there and is kept; remove it only if no release has written that version", dir)
				return
			}
			k.save(t, dir)
		})
	}
}

// recording is a state directory that is being made, and what it must hold.
type recording struct {
	expected
	r     *rig
	lines map[string][]string // of each run
}

func (k *recording) keep(p *server.Tape) string {
	k.lines[p.TaskID()] = p.Lines()
	return p.TaskID()
}

func (k *recording) ended(p *server.Tape) { k.Ended = append(k.Ended, k.keep(p.Whole())) }

// talks is the first run of the conversation that goes on.
func (k *recording) talks(t *testing.T, text string, b map[string]any) {
	k.Talk = "https://example.com/talks/1"
	b["messages"] = []any{map[string]any{"role": "user", "content": text}}
	first := k.r.Post(t, in(k.Talk, b)).Completed()
	all := server.Of[events.Message](first)
	k.Said = []string{text, all[len(all)-1].Content}
	k.ended(first)
}

// killed ends the server under runs that are open.
func (k *recording) killed(open ...*server.Tape) {
	k.r.Kill()
	for _, p := range open {
		p.Broken()
		k.Killed = append(k.Killed, k.keep(p))
	}
}

func recordSimulate(t *testing.T, r *rig) *recording {
	r.Args = append(r.Args, "--max-event", "4KiB")
	r.start()
	k := &recording{r: r, lines: map[string][]string{}, expected: expected{Agent: "simulate"}}
	ended := func(b map[string]any) { k.ended(r.Post(t, b)) }
	ended(simulate(fmt.Sprintf(everyStep, strings.Repeat("0123456789", 800)), nil))
	ended(simulate(`[{"error":{"message":"the model is busy","error_type":"overloaded","status":529}}]`, nil))
	ended(simulate(`[{"compact":{"summary":"all of it"}},{"output":{"answer":42}}]`, map[string]any{"response_format": map[string]any{"type": "object"}}))
	canceled := r.Post(t, simulate(`[{"text":"a"},{"calls":[{"tool":"a"},{"tool":"b"}]}]`, nil))
	server.Until[events.ToolRequest](canceled, 2)
	canceled.Cancel()
	k.ended(canceled)
	k.talks(t, "Remember the word quincunx.", body("simulate", "", anywhere))
	call := r.Post(t, simulate(`[{"text":"a"},{"call":{"tool":"t","arguments":{"x":1}}}]`, nil))
	server.Until[events.ToolRequest](call, 1)
	half := r.Post(t, simulate(`[{"reasoning":"hm"},{"text":"half a sentence","chunk_bytes":4,"delay_ms":600000}]`, nil))
	server.Until[events.MessageDelta](half, 1)
	k.killed(call, half)
	return k
}

// goldenClaude is how a real Claude Code was asked and is asked again: anywhere,
// since its session remembers where it was, and without most of its own tools,
// whose descriptions it keeps too.
func goldenClaude(sc *modelstub.Scenario) map[string]any {
	return body("claude-code", "", map[string]any{
		"cwd": "/", "credentials": map[string]any{"api_key": sc.Key(), "base_url": sc.BaseURL()},
		"native_tool_schemas": lookSchemas,
	})
}

// recordClaude is a conversation with a real Claude Code, whose agent alone
// knows what its own command and the host's tool said, and one that was killed.
func recordClaude(t *testing.T, r *rig) *recording {
	r.Env = append(r.Env, claudeCLI.path(t))
	r.start()
	stub := modelstub.New()
	t.Cleanup(stub.Close)
	k := &recording{r: r, lines: map[string][]string{}, expected: expected{Agent: "claude-code"}}
	sc := stub.Scenario(
		modelstub.Say(modelstub.Thinking("A word to remember."), modelstub.Text("I look."), modelstub.Tool("Bash", map[string]any{"command": "printf 'five %s' points", "description": "Says it"})),
		modelstub.Say(modelstub.Text("I remember quincunx.")),
		modelstub.Say(modelstub.Text("I ask."), modelstub.Tool("mcp__host__look", map[string]any{"of": "x"})),
	)
	k.talks(t, "Remember the word quincunx.", goldenClaude(sc))
	b := goldenClaude(sc)
	b["messages"] = []any{map[string]any{"role": "user", "content": "Look it up."}}
	call := r.Post(t, b)
	server.Until[events.ToolRequest](call, 1)
	k.killed(call)
	return k
}

// save puts what is kept of a recording into a folder.
func (k *recording) save(t *testing.T, dir string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "cp", "-r", k.r.State+"/.", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, name := range []string{"lock", "reserve", "children", "stock", "ready"} { // made anew by every server
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for task, all := range k.lines {
		write(t, filepath.Join(dir, "expected", task+".jsonl"), []byte(strings.Join(all, "\n")+"\n"))
	}
	raw, err := json.MarshalIndent(k.expected, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "expected", "expected.json"), append(raw, '\n'))
	if k.Agent == "claude-code" {
		k.saveClaude(t, dir)
		return
	}
	if out, err := exec.CommandContext(t.Context(), "cp", "-r", k.r.Agents, filepath.Join(dir, "expected", "agents")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// saveClaude keeps the session of the conversation that goes on, without what
// names the machine, and without the requests in it, which are mostly the
// vendor's own texts. The rest of its home says who and where it was.
func (k *recording) saveClaude(t *testing.T, dir string) {
	t.Helper()
	c, _ := k.r.state(t, k.Talk)
	path := filepath.Join("claude", "projects", "-", c.Session.ID+".jsonl")
	raw, err := os.ReadFile(filepath.Join(k.r.Agents, path))
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	for line := range strings.Lines(string(raw)) {
		if !strings.HasPrefix(line, `{"type":"api-request`) {
			line = strings.ReplaceAll(line, k.r.Home, "/home/somebody")
			kept = append(kept, regexp.MustCompile(`Linux [0-9][-.0-9a-z]*`).ReplaceAllString(line, "Linux 6.0.0"))
		}
	}
	write(t, filepath.Join(dir, "expected", "agents", path), []byte(strings.Join(kept, "")))
}

// state is the file of the conversation with a context.
func (r *rig) state(t testing.TB, contextID string) (c struct {
	ContextID string `json:"context_id"`
	Session   struct{ ID string }
}, path string,
) {
	t.Helper()
	all, _ := filepath.Glob(filepath.Join(r.State, "conversations", "*", "state.json"))
	for _, path := range all {
		raw, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(raw, &c)
		}
		if err != nil {
			t.Fatal(err)
		}
		if c.ContextID == contextID {
			return c, path
		}
	}
	t.Fatalf("no conversation is of %s", contextID)
	return c, ""
}

func write(t testing.TB, path string, data []byte) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// version is what STATE/VERSION says.
func (r *rig) version() int {
	r.T.Helper()
	raw, err := os.ReadFile(filepath.Join(r.State, "VERSION"))
	var v struct{ Version int }
	if err == nil {
		err = json.Unmarshal(raw, &v)
	}
	if err != nil || v.Version == 0 {
		r.T.Fatalf("VERSION: %v: %s", err, raw)
	}
	return v.Version
}

// A state directory of every version that was ever released is opened by this
// build: every event of every run is as its readers were given it then, runs
// that were open are ended, and conversations go on.
func TestStateDirectoriesOfOldBuilds(t *testing.T) {
	if *update {
		makeGolden(t)
		return
	}
	dirs, err := filepath.Glob(filepath.Join(golden, "state-v*"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no golden state directory: %v", err)
	}
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) { openGolden(t, dir) })
	}
}

func openGolden(t *testing.T, dir string) {
	began := time.Now()
	r := newRig(t)
	// What ended then is older than what is kept usually.
	r.Args = append(r.Args, "--retention", "876000h")
	want := r.place(t, dir)
	talk := goldenTalks[cmp.Or(want.Agent, "simulate")](t, r)
	r.start()
	var all ledger.Result
	for i, task := range append(want.Ended, want.Killed...) {
		raw, err := os.ReadFile(filepath.Join(dir, "expected", task+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		then := bytes.Split(bytes.TrimSuffix(raw, []byte("\n")), []byte("\n"))
		p := r.Follow(t, task, "0").Whole()
		if i >= len(want.Ended) {
			r.endedBy(t, task, events.ErrAdapterRestarted)
			for _, line := range p.Lines()[min(len(then), len(p.Lines())):] {
				then = append(then, []byte(line)) // how it was ended now
			}
		}
		l := ledger.New()
		taped(l, "who reads run "+task, p).Whole()
		all.Add(l.Compare(logOf(then)))
		r.blobs(t, task, p)
	}
	var list struct{ Tasks []struct{ ID string } }
	r.Do("GET", "/tasks?page_size=100", nil, &list)
	if len(list.Tasks) != len(want.Ended)+len(want.Killed) {
		t.Errorf("%d runs are listed, of %d", len(list.Tasks), len(want.Ended)+len(want.Killed))
	}
	p := talk(want)
	for _, s := range server.Of[events.Status](p) {
		if s.State == events.StateHistory && s.Mode != "continue" {
			t.Errorf("the conversation went on as %+v", s)
		}
	}
	l := ledger.New()
	taped(l, "who goes on", p).Whole()
	all.Add(r.compare(l, p.TaskID()))
	version, agent, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), "state-v"), "-")
	result(t, fmt.Sprintf("a state directory of version %s, opened by this build (%s)", version, map[string]string{"": "simulate", "claude-code": "Claude Code"}[agent]), all, time.Since(began))
}

// place makes a golden state directory, and the agents' home of its time, the
// server's. The conversation that goes on was used just now: after a month it
// is forgotten.
func (r *rig) place(t testing.TB, dir string) (want expected) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "expected", "expected.json"))
	if err == nil {
		err = json.Unmarshal(raw, &want)
	}
	if err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{dir: r.State, filepath.Join(dir, "expected", "agents"): r.Agents} {
		if out, err := exec.CommandContext(t.Context(), "cp", "-r", from, to).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if err := os.RemoveAll(filepath.Join(r.State, "expected")); err != nil {
		t.Fatal(err)
	}
	_, path := r.state(t, want.Talk)
	if raw, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	now := fmt.Sprintf(`"last_used":%q`, time.Now().UTC().Format(time.RFC3339Nano))
	write(t, path, regexp.MustCompile(`"last_used":"[^"]*"`).ReplaceAll(raw, []byte(now)))
	return want
}

// goldenTalks have the conversation of a golden state directory go on, by agent.
var goldenTalks = map[string]func(*testing.T, *rig) func(expected) *server.Tape{
	"simulate": func(t *testing.T, r *rig) func(expected) *server.Tape {
		return func(want expected) *server.Tape {
			p := r.Post(t, want.next(simulate(`[{"told":true}]`, anywhere))).Completed()
			if n := strings.Count(p.Text(), want.Said[0]); n < 1 || !strings.Contains(p.Text(), "Which word?") {
				t.Errorf("the conversation does not go on: its agent was told %s", p.Text())
			}
			return p
		}
	},
	"claude-code": func(t *testing.T, r *rig) func(expected) *server.Tape {
		r.Env = append(r.Env, claudeCLI.path(t))
		stub := modelstub.New()
		t.Cleanup(stub.Close)
		sc := stub.Scenario(modelstub.Say(modelstub.Text("Quincunx.")))
		return func(want expected) *server.Tape {
			p := r.Post(t, want.next(goldenClaude(sc))).Completed()
			if sc.Count() != 1 {
				t.Fatalf("the model was asked %d times", sc.Count())
			}
			asked := string(sc.Requests()[0].Body)
			// What its command printed only the agent's own session knows.
			for _, text := range []string{want.Said[0], want.Said[1], "five points", "Which word?"} {
				if n := strings.Count(asked, text); n != 1 {
					t.Errorf("the model is told %q %d times", text, n)
				}
			}
			return p
		}
	},
}

// next is the next request of the conversation.
func (e expected) next(b map[string]any) map[string]any {
	b["messages"] = []any{
		map[string]any{"role": "user", "content": e.Said[0]},
		map[string]any{"role": "assistant", "content": e.Said[1]},
		map[string]any{"role": "user", "content": "Which word?"},
	}
	return in(e.Talk, b)
}

// blobs fails the test unless every value that was cut is there, whole.
func (r *rig) blobs(t testing.TB, task string, p *server.Tape) {
	t.Helper()
	for _, line := range p.Lines() {
		_, rest, ok := strings.Cut(line, `"sha256":"`)
		if !ok {
			continue
		}
		sum, _, _ := strings.Cut(rest, `"`)
		if status, answer := r.Call("GET", "/tasks/"+task+"/blobs/"+sum, nil); status != 200 || len(answer) < 4096 {
			t.Errorf("blob %s of run %s: status %d, %d bytes", sum, task, status, len(answer))
		}
	}
}
