//go:build linux

package faults_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"innerd/events"
	"innerd/test/ledger"
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
	began := time.Now()
	r := newRig(t).start()
	// More than one segment: the next must be opened while nothing can be.
	p := r.Post(t, simulate(`[{"call":{"tool":"wait"}},{"flood":{"deltas":9000,"bytes":1200}},{"text":"over"}]`,
		map[string]any{"events": []string{"session.task_id", "tool.execution_request", "session.error", "session.end"}}))
	call := server.Until[events.ToolRequest](p, 1)
	task := p.TaskID()
	l := ledger.New()
	var readers []*reading
	for i := range 4 {
		readers = append(readers, r.attached(l, fmt.Sprintf("attached %d", i), task, 0))
	}
	answering, err := net.Dial("tcp", strings.TrimPrefix(r.URL(), "http://")) // a connection that is there
	if err != nil {
		t.Fatal(err)
	}
	defer answering.Close() //nolint:errcheck // it ends with the test
	if _, err := fmt.Fprintf(answering, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	health := make([]byte, 12)
	if _, err := io.ReadFull(answering, health); err != nil || string(health) != "HTTP/1.1 200" {
		t.Fatalf("%q %v", health, err)
	}
	was := mayOpen(t, r.Pid(), uint64(openFiles(t, r.Pid())+2)) // the fault

	answers := storm(t, r, 12)
	const result1 = `{"result":"go"}`
	if _, err := fmt.Fprintf(answering, "POST /tools/%s/result HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", call.ToolCallID, r.Key(), len(result1), result1); err != nil {
		t.Fatal(err)
	}
	p.Whole()
	if f := p.Failure(); f != nil && !strings.Contains(f.Message, "too many open files") { // the agent's own session
		t.Errorf("the run ended with %+v", f)
	}
	for _, q := range readers {
		q.Whole()
		q.clean()
	}
	mayOpen(t, r.Pid(), was)
	counts := map[string]int{}
	for range 12 {
		counts[<-answers]++
	}
	t.Logf("who came meanwhile: %v", counts)
	for answer := range counts {
		if answer != "200 completed" && answer != "200 internal" && answer != "500" {
			t.Errorf("%d were answered %q", counts[answer], answer)
		}
	}
	after := r.Post(t, simulate(`[{"text":"as before"}]`, nil)).Completed()
	r.late(l, "late", task)
	res := r.compare(l, task)
	l = ledger.New()
	taped(l, "the POST afterwards", after).Whole()
	res.Add(r.compare(l, after.TaskID()))
	result(t, "no descriptors left, 12 runs asked for meanwhile (simulate)", res, time.Since(began))
}

// storm starts runs at once, each over a connection of its own, and gives how
// each was answered, as soon as it was.
func storm(t testing.TB, r *rig, n int) <-chan string {
	out := make(chan string, n)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for i := range n {
		body := fmt.Sprintf(`{"messages":[{"role":"user","content":"run %d"}],"metadata":{"backend":"simulate","agent_options":{"script":[{"text":"well"}]}}}`, i)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL()+"/message:stream", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+r.Key())
		wg.Go(func() { // ends with the answer, or the test
			resp, err := client.Do(req)
			if err != nil {
				out <- err.Error()
				return
			}
			defer resp.Body.Close() //nolint:errcheck // only read
			raw, err := io.ReadAll(resp.Body)
			switch s := string(raw); {
			case resp.StatusCode != http.StatusOK:
				out <- fmt.Sprint(resp.StatusCode)
			case err != nil:
				out <- "a stream that was cut"
			case strings.Contains(s, `"state":"completed"`) && strings.HasSuffix(s, "data: [DONE]\n\n"):
				out <- "200 completed"
			case strings.Contains(s, `"error_type":"internal"`):
				out <- "200 internal"
			default:
				out <- s
			}
		})
	}
	t.Cleanup(func() { cancel(); wg.Wait() })
	return out
}

// The second server on a state directory ends at once and names the first,
// which does not notice.
func TestTwoServersOnOneStateDirectory(t *testing.T) {
	began := time.Now()
	r := newRig(t).start()
	p := r.Post(t, simulate(`[{"flood":{"deltas":1500,"per_second":3000}},{"text":"over"}]`, nil))
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
	p.Completed()
	reader.Whole()
	reader.clean()
	taped(l, "the POST", p).Whole()
	r.late(l, "late", p.TaskID())
	res := r.compare(l, p.TaskID())
	_ = syscall.Kill(r.Pid(), syscall.SIGKILL)
	r.killed() // who was killed holds the directory no longer
	r.late(l, "late, after a restart", p.TaskID())
	res.Add(r.compare(l, p.TaskID()))
	result(t, "two servers on one state directory (simulate)", res, time.Since(began))
}
