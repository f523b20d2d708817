//go:build linux

package soak_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"innerd/events"
	"innerd/test/report"
	"innerd/test/server"
)

const (
	recoveryCommand = "make recovery"
	perContext      = 10 // runs of a conversation
	leftOpen        = 20 // runs that are on when the server is killed
)

// many is a server that makes many runs, one after another.
type many struct {
	*server.Server
	c    *client
	addr string // it listens at the same place after each start
	runs int
	open int // runs that a kill has ended so far
}

// Ten thousand runs one after another leave no process and no descriptor, and
// a server that keeps them all and is killed is ready again in 300 ms, with
// every run in its list and those that were open ended.
func TestManyRuns(t *testing.T) {
	t.Parallel()
	n, kills := 500, 2
	if long("recovery") {
		n, kills = 10_000, 7
	}
	addr, err := freeAddr()
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(t, binary)
	// More than are made, so that all are kept.
	s.Args = []string{"serve", "--listen", addr, "--log-format", "json", "--max-runs", "20000"}
	s.Start()
	m := &many{Server: s, c: newClient(t, s), addr: addr}
	took, before, after := m.leaveNothing(n)
	var starts []time.Duration
	for range kills {
		starts = append(starts, m.killed())
	}
	slices.Sort(starts)
	m.allListed()
	text := fmt.Sprintf(`runs, one after another          %d in %.0f s, every fifth with a child that dies
descriptors before and after     %d, %d
children before and after        %d, %d
memory before and after          %.1f MB, %.1f MB (RSS; %d runs are kept)
of that its own                  %.1f MB, %.1f MB%s
kills, each with %d open runs    %d
from exec to /ready              %.0f ms (median), %.0f ms (longest)
runs that are listed then        %d`,
		n, took.Seconds(), before.fds, after.fds, before.children, after.children, mb(before.rss), mb(after.rss), n,
		mb(before.anon), mb(after.anon), perRun(before, after, n), leftOpen, kills, ms(starts[len(starts)/2]), ms(starts[len(starts)-1]), m.runs)
	t.Log("\n" + text)
	if !long("recovery") || t.Failed() {
		return
	}
	report.Write(t, "recovery", recoveryCommand, text)
	if median := starts[len(starts)/2]; median > 300*time.Millisecond {
		t.Errorf("it takes %v from exec to /ready", median)
	}
}

// perRun says what a kept run costs, where the server has given back what it
// does not need.
func perRun(before, after vitals, n int) string {
	if !long("recovery") {
		return ""
	}
	return fmt.Sprintf(" at rest: %.1f kB of each kept run", float64(after.anon-before.anon)/float64(n)/1e3)
}

func mb(bytes int64) float64 { return float64(bytes) / 1e6 }

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// leaveNothing makes n runs and holds what the server has afterwards against
// what it had before.
func (m *many) leaveNothing(n int) (took time.Duration, before, after vitals) {
	t := m.T
	t.Helper()
	for range perContext { // what a first run opens for good is no leak
		m.one()
	}
	before = m.givenBack()
	begin := time.Now()
	for range n {
		m.one()
	}
	took = time.Since(begin)
	// The one that is kept more is the connection that this test looks through.
	eventually(t, fmt.Sprintf("no more than %d descriptors are left of %d runs", before.fds+1, n), func() bool {
		after = m.rest()
		return after.fds <= before.fds+1
	})
	after.memory = m.givenBack().memory
	return took, before, after
}

// givenBack is rest; in the long form when the server has given back what only
// the work needed.
func (m *many) givenBack() vitals {
	if long("recovery") {
		pause(m.T.Context(), givesBack)
	}
	return m.rest()
}

// rest waits until the server has no child, and gives what it has then.
func (m *many) rest() (v vitals) {
	m.T.Helper()
	eventually(m.T, "no process is left", func() bool {
		var err error
		v, err = look(m.Pid())
		return err == nil && v.children == 0 && len(m.Marked()) == 0
	})
	return v
}

// one makes the next run and waits for its end. Every fifth has a child, which
// dies.
func (m *many) one() {
	m.T.Helper()
	i := m.runs
	m.runs++
	script := []object{{"reasoning": "a run of many"}, {"tool": object{"name": "shell", "output": "done"}}, {"text": fmt.Sprint("run ", i)}}
	want := events.Completed
	if i%5 == 4 {
		script, want = append(script, object{"crash": object{"exit_code": 3, "stderr": "the end"}}), events.Failed
	}
	body := turn(fmt.Sprint("context ", i/perContext), fmt.Sprint("turn ", i), script, nil)
	status, answer, err := m.c.call(m.T.Context(), http.MethodPost, "/message:send", body)
	var task struct {
		Status struct{ State string }
	}
	if err == nil {
		err = json.Unmarshal(answer, &task)
	}
	if err != nil || task.Status.State != want {
		m.T.Fatalf("run %d: status %d, %v: %s", i, status, err, answer)
	}
}

// killed kills the server while runs are on, starts it, gives the time from
// there until it is ready, and looks at how the runs ended.
func (m *many) killed() time.Duration {
	t := m.T
	t.Helper()
	var ids []string
	for range leftOpen {
		id := fmt.Sprintf("left-open-%05d", m.open)
		m.open++
		m.stall(id)
		ids = append(ids, id)
	}
	m.runs += leftOpen
	m.Kill()
	ready := make(chan time.Duration, 1)
	begin := time.Now()
	go func() { ready <- m.untilReady(begin) }() // ends with the server's readiness, or the test
	m.Start()
	took := <-ready
	if took == 0 {
		t.Fatal("the server is never ready")
	}
	for _, id := range ids {
		var task struct {
			Status struct{ State string }
			Error  struct {
				ErrorType string `json:"error_type"`
			}
		}
		if err := m.c.get(t.Context(), "/tasks/"+id, &task); err != nil || task.Error.ErrorType != events.ErrAdapterRestarted {
			t.Errorf("%s is %+v after the restart: %v", id, task, err)
		}
	}
	return took
}

// stall makes a run that has said something and goes on.
func (m *many) stall(id string) {
	m.T.Helper()
	ctx, cancel := context.WithCancel(m.T.Context())
	defer cancel()
	body := turn("", "wait", []object{{"text": "half"}, {"stall": true}}, object{"task_id": id, "detach": true})
	resp, err := m.c.open(ctx, http.MethodPost, "/message:stream", body)
	if err != nil {
		m.T.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	seen := ""
	for buf := make([]byte, 4096); !strings.Contains(seen, string(events.TypeMessage)+`"`); {
		n, err := resp.Body.Read(buf)
		if seen += string(buf[:n]); err != nil {
			m.T.Fatalf("%s: %v: %s", id, err, seen)
		}
	}
}

// untilReady looks every millisecond. 0: the test was over first.
func (m *many) untilReady(begin time.Time) time.Duration {
	tr := &http.Transport{DisableKeepAlives: true}
	c := &client{url: "http://" + m.addr, http: &http.Client{Transport: tr}}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		resp, err := c.open(m.T.Context(), http.MethodGet, "/ready", nil)
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return time.Since(begin)
			}
		}
		select {
		case <-tick.C:
		case <-m.T.Context().Done():
			return 0
		}
	}
}

// allListed fails the test unless the list has each run once, and the disk no
// other.
func (m *many) allListed() {
	t := m.T
	t.Helper()
	seen, token := map[string]bool{}, ""
	for first := true; first || token != ""; first = false {
		var page struct {
			Tasks     []struct{ ID string }
			NextToken string `json:"next_page_token"`
		}
		if err := m.c.get(t.Context(), "/tasks?page_size=100&page_token="+token, &page); err != nil {
			t.Fatal(err)
		}
		for _, task := range page.Tasks {
			if seen[task.ID] {
				t.Errorf("%s is listed twice", task.ID)
			}
			seen[task.ID] = true
		}
		token = page.NextToken
	}
	onDisk, err := filepath.Glob(filepath.Join(m.State, "runs", "*"))
	if err != nil || len(seen) != m.runs || len(onDisk) != m.runs {
		t.Errorf("%d runs were made, %d are listed, %d on disk (%v)", m.runs, len(seen), len(onDisk), err)
	}
}

// freeAddr is an address of loopback where nobody listens, with a port below
// those that systems give away: nobody gets it while the server is away.
func freeAddr() (addr string, err error) {
	for range 100 {
		addr = fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(10_000))
		var l net.Listener
		if l, err = net.Listen("tcp", addr); err == nil {
			return addr, l.Close()
		}
	}
	return "", err
}
