//go:build linux

package faults_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"innerd/events"
	"innerd/test/ledger"
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

// makeGolden makes a state directory with this build.
func makeGolden(t *testing.T) {
	r := newRig(t)
	r.Args = append(r.Args, "--max-event", "4KiB")
	r.start()
	var want expected
	lines := map[string][]string{}
	keep := func(p *server.Tape) string {
		task := p.TaskID()
		lines[task] = p.Lines()
		return task
	}
	ended := func(b map[string]any) { want.Ended = append(want.Ended, keep(r.Post(t, b).Whole())) }
	ended(simulate(fmt.Sprintf(everyStep, strings.Repeat("0123456789", 800)), nil))
	ended(simulate(`[{"error":{"message":"the model is busy","error_type":"overloaded","status":529}}]`, nil))
	ended(simulate(`[{"compact":{"summary":"all of it"}},{"output":{"answer":42}}]`, map[string]any{"response_format": map[string]any{"type": "object"}}))
	canceled := r.Post(t, simulate(`[{"text":"a"},{"calls":[{"tool":"a"},{"tool":"b"}]}]`, nil))
	server.Until[events.ToolRequest](canceled, 2)
	canceled.Cancel()
	want.Ended = append(want.Ended, keep(canceled.Whole()))
	want.Talk = "https://example.com/talks/1"
	first := r.Post(t, in(want.Talk, body("simulate", "Remember the word quincunx.", anywhere))).Completed()
	want.Said = []string{"Remember the word quincunx.", first.Text()}
	want.Ended = append(want.Ended, keep(first))
	var open []*server.Tape
	call := r.Post(t, simulate(`[{"text":"a"},{"call":{"tool":"t","arguments":{"x":1}}}]`, nil))
	server.Until[events.ToolRequest](call, 1)
	half := r.Post(t, simulate(`[{"reasoning":"hm"},{"text":"half a sentence","chunk_bytes":4,"delay_ms":600000}]`, nil))
	server.Until[events.MessageDelta](half, 1)
	open = append(open, call, half)
	r.Kill()
	for _, p := range open {
		p.Broken()
		want.Killed = append(want.Killed, keep(p))
	}
	dir := filepath.Join(golden, fmt.Sprintf("state-v%d", r.version()))
	if _, err := os.Stat(dir); err == nil {
		t.Fatalf("%s is there: it is kept as it is; remove it only if no release has written that version", dir)
	}
	if out, err := exec.CommandContext(t.Context(), "cp", "-r", r.State+"/.", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, name := range []string{"lock", "reserve", "children"} { // made anew by every server
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for task, all := range lines {
		write(t, filepath.Join(dir, "expected", task+".jsonl"), []byte(strings.Join(all, "\n")+"\n"))
	}
	raw, err := json.MarshalIndent(want, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "expected", "expected.json"), append(raw, '\n'))
	if out, err := exec.CommandContext(t.Context(), "cp", "-r", r.Agents, filepath.Join(dir, "expected", "agents")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
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
	var want expected
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
	next := in(want.Talk, simulate(`[{"told":true}]`, anywhere))
	next["messages"] = []any{
		map[string]any{"role": "user", "content": want.Said[0]},
		map[string]any{"role": "assistant", "content": want.Said[1]},
		map[string]any{"role": "user", "content": "Which word?"},
	}
	p := r.Post(t, next).Completed()
	if n := strings.Count(p.Text(), "Remember the word quincunx."); n < 1 || !strings.Contains(p.Text(), "Which word?") {
		t.Errorf("the conversation does not go on: its agent was told %s", p.Text())
	}
	for _, s := range server.Of[events.Status](p) {
		if s.State == events.StateHistory && s.Mode != "continue" {
			t.Errorf("the conversation went on as %+v", s)
		}
	}
	result(t, "a state directory of version "+strings.TrimPrefix(filepath.Base(dir), "state-v")+", opened by this build", all, time.Since(began))
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
