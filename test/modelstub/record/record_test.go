package record_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"innerd/test/agents"
	"innerd/test/modelstub"
	"innerd/test/modelstub/claudecli"
	"innerd/test/modelstub/record"
)

var update = flag.Bool("update", false, "record the transcripts anew with the real CLI")

const golden = "../../testdata/claude"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// session is a CLI that is being recorded.
type session struct {
	t         *testing.T
	rec       recording
	sc        *modelstub.Scenario
	host      claudecli.Host
	home, dir string
	cli       *claudecli.CLI
}

func newSession(t *testing.T, stub *modelstub.Server, rec recording) *session {
	s := &session{t: t, rec: rec, sc: stub.Scenario(), host: rec.host, home: t.TempDir(), dir: t.TempDir()}
	for _, turn := range rec.turns {
		s.sc.Add(s.inDir(turn))
	}
	return s
}

// inDir puts the working directory where a turn says {{cwd}}.
func (s *session) inDir(t modelstub.Turn) modelstub.Turn { return t.Replace("{{cwd}}", s.dir) }

func (s *session) start() {
	args := s.rec.args
	switch {
	case s.rec.resume != "":
		args = append(args, "--resume", s.rec.resume)
	case !slices.Contains(args, "--resume"):
		args = append(args, "--session-id", "00000000-0000-4000-8000-0000000000aa")
	}
	s.launch(args)
}

func (s *session) launch(args []string) {
	s.cli = claudecli.Start(s.t, claudecli.Options{
		Path: agents.Claude(s.t).Path, Dir: s.dir, Home: s.home, ConfigDir: filepath.Join(s.home, "claude"),
		BaseURL: s.sc.BaseURL(), Key: s.sc.Key(), Args: args, Env: s.rec.env, Host: s.host,
	})
}

// before is the process whose session is resumed.
func (s *session) before() {
	s.launch([]string{"--session-id", s.rec.resume})
	s.cli.Say("00000000-0000-4000-8000-0000000000cc", "Remember this.")
	s.cli.Await("result")
	if code := s.cli.Close(); code != 0 {
		s.t.Fatalf("exit code %d", code)
	}
}

// idle waits until the CLI says that it has nothing more to do.
func (s *session) idle() {
	for {
		var m struct{ State string }
		if err := json.Unmarshal(s.cli.Await("system/session_state_changed"), &m); err != nil {
			s.t.Fatal(err)
		}
		if m.State == "idle" {
			return
		}
	}
}

// delta waits until the CLI has passed on text that ends so.
func (s *session) delta(end string) {
	text := ""
	for !strings.HasSuffix(text, end) {
		var m struct {
			Event struct{ Delta struct{ Text string } }
		}
		if err := json.Unmarshal(s.cli.Await("stream_event/content_block_delta"), &m); err != nil {
			s.t.Fatal(err)
		}
		text += m.Event.Delta.Text
	}
}

func (s *session) interruptAndGoOn() {
	s.cli.Interrupt()
	s.cli.Await("result")
	s.idle()
	s.cli.Say(second, "Go on.")
	s.cli.Await("result")
	s.idle()
}

// run records.
func (s *session) run() []claudecli.Entry {
	if s.rec.resume != "" {
		s.before()
	}
	drive := s.rec.drive
	if drive == nil {
		drive = oneTurn
	}
	drive(s)
	if code := s.cli.Close(); code != s.rec.exit {
		s.t.Errorf("exit code %d, want %d", code, s.rec.exit)
	}
	return s.cli.Log()
}

func (s *session) marshal(log []claudecli.Entry) []byte {
	n := record.NewNormalizer(s.dir, "/workspace", s.home, "/home/agent")
	data, err := n.Marshal(trim(log, s.rec.name == "text"))
	if err != nil {
		s.t.Fatal(err)
	}
	return data
}

// trim takes the long lists out of the answer to initialize and of init, but
// for one transcript: they are the same everywhere.
func trim(log []claudecli.Entry, whole bool) []claudecli.Entry {
	if whole {
		return log
	}
	lists := regexp.MustCompile(`"(commands|agents|models|available_output_styles|slash_commands|terminal_slash_commands|skills|plugins|capabilities)":\[`)
	out := slices.Clone(log)
	for i, e := range out {
		kinds := claudecli.Kinds(e.Line)
		if e.Dir != "out" || !(slices.Contains(kinds, "system/init") || slices.Contains(kinds, "control_response")) {
			continue
		}
		line := bytes.Clone(e.Line)
		for at := 0; ; {
			m := lists.FindIndex(line[at:])
			if m == nil {
				break
			}
			open := at + m[1] - 1
			var list json.RawMessage
			if json.NewDecoder(bytes.NewReader(line[open:])).Decode(&list) != nil {
				break
			}
			line = slices.Concat(line[:open], []byte("[]"), line[open+len(list):])
			at = open
		}
		out[i].Line = line
	}
	return out
}

// Record with: go test ./test/modelstub/record -run TestRecord -update
func TestRecord(t *testing.T) {
	stub := modelstub.New()
	t.Cleanup(stub.Close)
	// Without -update a few are recorded and compared, to see a CLI that changed.
	compared := []string{"text", "mcp-text", "permission-deny"}
	for _, rec := range recordings {
		if !*update && !slices.Contains(compared, rec.name) {
			continue
		}
		t.Run(rec.name, func(t *testing.T) {
			s := newSession(t, stub, rec)
			log := s.run()
			path := filepath.Join(golden, rec.name+".jsonl")
			if *update {
				if err := os.WriteFile(path, s.marshal(log), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := record.Read(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(kinds(want), kinds(log)); diff != "" {
				t.Errorf("the CLI does not speak as in the transcript (-transcript +now):\n%s", diff)
			}
		})
	}
}

// kinds is the set of kinds of lines in a transcript: their number and some of
// their order depend on time.
func kinds(log []claudecli.Entry) []string {
	seen := map[string]bool{}
	for _, e := range log {
		ks := claudecli.Kinds(e.Line)
		if len(ks) > 0 && ks[0] != "" {
			seen[e.Dir+" "+ks[len(ks)-1]] = true
		}
	}
	out := make([]string, 0, len(seen))
	for k := range seen {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// What is stored is small, whole, and of no particular machine.
func TestStored(t *testing.T) {
	total, home := 0, os.Getenv("HOME")
	for _, rec := range recordings {
		path := filepath.Join(golden, rec.name+".jsonl")
		data, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
			continue
		}
		total += len(data)
		for _, bad := range []string{os.TempDir() + "/Test", "TestRecord", home + "/", "sk-stub-"} {
			if bytes.Contains(data, []byte(bad)) {
				t.Errorf("%s contains %s", path, bad)
			}
		}
		log, err := record.Read(path)
		if err != nil {
			t.Error(err)
			continue
		}
		if log[0].Dir != "cmd" || log[len(log)-1].Dir != "exit" {
			t.Errorf("%s is not whole", path)
		}
	}
	if total > 1<<20 {
		t.Errorf("%d bytes, want at most 1 MiB", total)
	}
}
