//go:build linux

package faults_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"innerd/events"
	"innerd/test/ledger"
	"innerd/test/modelstub"
	"innerd/test/server"
)

// openFiles are what a process has open.
func openFiles(t testing.TB, pid int) int {
	t.Helper()
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// mayOpen limits the descriptors of a process, and gives what it may have had.
func mayOpen(t testing.TB, pid int, n uint64) (before uint64) {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: old.Max}, nil); err != nil {
		t.Fatal(err)
	}
	return old.Cur
}

// A server that can open nothing more goes on with the runs that it has, and
// their readers; who comes new waits, or is told; and all is well when
// openFiles are free again.
func TestOutOfDescriptors(t *testing.T) {
	t.Parallel()
	both(t, outOfDescriptors)
}

func outOfDescriptors(t *testing.T, c *cast) {
	began := time.Now()
	r := c.rig(t).start()
	// More than one segment: the next must be opened while nothing can be.
	large := act{block: flood(2700, 4000).block, sim: flood(9000, 1200).sim}
	p := c.actor(t, r).does(t, map[string]any{"events": []string{"session.task_id", "tool.execution_request", "session.error", "session.end"}},
		say("I ask."), look("x"), large, say("over"))
	call := server.Until[events.ToolRequest](p, 1)
	task := p.TaskID()
	l := ledger.New()
	var readers []*reading
	for i := range pick(2, 4) {
		readers = append(readers, r.attached(l, fmt.Sprintf("attached %d", i), task, 0))
	}
	here := r.dial(t)
	was := mayOpen(t, r.Pid(), uint64(openFiles(t, r.Pid())+2)) // the fault

	answers := storm(t, r, c.stormy(12))
	here.send(t, http.MethodPost, "/tools/"+call.ToolCallID+"/result", `{"result":"go"}`)
	p.Whole()
	if f := p.Failure(); f != nil && !strings.Contains(f.Message, "too many open files") { // the agent's own session
		t.Errorf("the run ended with %+v", f)
	}
	for _, q := range readers {
		q.Whole()
		q.clean()
	}
	if segments, _ := filepath.Glob(filepath.Join(r.runDir(task), "*.jsonl")); len(segments) < 2 {
		t.Errorf("the log has the segments %v: none was begun", segments)
	}
	mayOpen(t, r.Pid(), was)
	counts := map[string]int{}
	for range 12 {
		counts[<-answers]++
	}
	t.Logf("who came meanwhile: %v", counts)
	for answer := range counts {
		if !slices.Contains([]string{"200 completed", "200 internal", "200 backend_unavailable", "500"}, answer) {
			t.Errorf("%d were answered %q", counts[answer], answer)
		}
	}
	after := c.actor(t, r).does(t, nil, say("as before")).Completed()
	r.late(l, "late", task)
	res := r.compare(l, task)
	l = ledger.New()
	taped(l, "the POST afterwards", after).Whole()
	res.Add(r.compare(l, after.TaskID()))
	c.result(t, "no descriptors left, 12 runs asked for meanwhile", res, began)
}

// connected is a connection that is there already.
type connected struct {
	net.Conn
	key string
}

// dial makes a connection, and one request so that the server has it.
func (r *rig) dial(t testing.TB) connected {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	c := connected{conn, r.Key()}
	c.send(t, http.MethodGet, "/health", "")
	health := make([]byte, 12)
	if _, err := io.ReadFull(conn, health); err != nil || string(health) != "HTTP/1.1 200" {
		t.Fatalf("%q %v", health, err)
	}
	return c
}

func (c connected) send(t testing.TB, method, path, body string) {
	t.Helper()
	if _, err := fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", method, path, c.key, len(body), body); err != nil {
		t.Fatal(err)
	}
}

// stormy are so many short runs, every third of a real agent: five that can't
// be started in a row, and the server tries none for a while.
func (c *cast) stormy(n int) (all []map[string]any) {
	sc := c.stub.Scenario(modelstub.Say(modelstub.Text("well")).Forever())
	for i := range n {
		b := simulate(`[{"text":"well"}]`, nil)
		if c.v != nil && i%3 == 0 {
			b = body(c.v.backend, "go on", map[string]any{"credentials": map[string]any{"api_key": sc.Key(), "base_url": c.v.base(sc)}})
		}
		all = append(all, b)
	}
	return all
}

// storm starts runs at once, each over a connection of its own, and gives how
// each was answered, as soon as it was.
func storm(t testing.TB, r *rig, all []map[string]any) <-chan string {
	out := make(chan string, len(all))
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, b := range all {
		raw, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL()+"/message:stream", bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+r.Key())
		wg.Go(func() { out <- answerOf(req) }) // ends with the answer, or the test
	}
	t.Cleanup(func() { cancel(); wg.Wait() })
	return out
}

var errorType = regexp.MustCompile(`"type":"session\.error","data":\{.*"error_type":"([a-z_]+)"`)

// answerOf makes a request for a run, and says in short what came of it.
func answerOf(req *http.Request) string {
	resp, err := client.Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	raw, err := io.ReadAll(resp.Body)
	switch s := string(raw); {
	case resp.StatusCode != http.StatusOK:
		return fmt.Sprint(resp.StatusCode)
	case err != nil:
		return "a stream that was cut"
	case strings.Contains(s, `"state":"completed"`) && strings.HasSuffix(s, "data: [DONE]\n\n"):
		return "200 completed"
	default:
		if m := errorType.FindStringSubmatch(s); m != nil {
			return "200 " + m[1]
		}
		return s
	}
}

// The second server on a state directory ends at once and names the first,
// which does not notice.
func TestTwoServersOnOneStateDirectory(t *testing.T) {
	t.Parallel()
	both(t, twoServers)
}

func twoServers(t *testing.T, c *cast) {
	began := time.Now()
	r := c.rig(t).start()
	p := c.actor(t, r).does(t, nil, paced(1500, 30, 3000), say("over"))
	waits := c.opens(t, r)
	l := ledger.New()
	reader := r.attached(l, "attached", p.TaskID(), 0)
	for range 3 {
		cmd := exec.CommandContext(t.Context(), innerd, "serve", "--listen", "127.0.0.1:0")
		cmd.Env = append(os.Environ(), "HOME="+r.Home, "INNERD_STATE_DIR="+r.State, "INNERD_AGENT_HOME="+r.Agents, "INNERD_API_KEYS=host:"+r.Key())
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), fmt.Sprintf("in use by process %d", r.Pid())) {
			t.Errorf("the second server: %v\n%s", err, out)
		}
	}
	if n := len(server.Of[events.ToolResolved](waits)); n > 0 || waits.End().State != "" {
		t.Errorf("the run that waits ended when another server came:\n%s", waits)
	}
	p.Completed()
	reader.Whole()
	reader.clean()
	taped(l, "the POST", p).Whole()
	r.late(l, "late", p.TaskID())
	res := r.compare(l, p.TaskID())
	r.Kill()
	unasked := c.again(t, r) // who was killed holds the directory no longer
	r.late(l, "late, after a restart", p.TaskID())
	res.Add(r.compare(l, p.TaskID()))
	r.endedBy(t, waits.TaskID(), events.ErrAdapterRestarted)
	unasked()
	c.result(t, "two servers on one state directory", res, began)
}
