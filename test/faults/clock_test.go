//go:build linux

package faults_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"innerd/events"
	"innerd/test/ledger"
	"innerd/test/server"
)

// clockEnv names the file that says by how many milliseconds the wall clock of
// a server with a clock of its own is ahead.
const clockEnv = "INNERD_FAULTS_CLOCK"

const clockSource = `package %s

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

var clockAhead atomic.Int64

func init() {
	path := os.Getenv("` + clockEnv + `")
	look := func() {
		raw, _ := os.ReadFile(path)
		if ms, err := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64); err == nil {
			clockAhead.Store(ms)
		}
	}
	look()
	go func() {
		for ; ; time.Sleep(2 * time.Millisecond) {
			look()
		}
	}()
}

// wallNow has no monotonic reading: differences show the jump, which is worse
// than what a real clock does.
func wallNow() time.Time {
	return time.Now().Round(0).Add(time.Duration(clockAhead.Load()) * time.Millisecond)
}
`

// seams are where innerd looks at the wall clock: for the times in its logs,
// and for how long these are kept.
var seams = []struct{ file, from, to string }{
	{"events/journal/journal.go", "r.Now = time.Now", "r.Now = wallNow"},
	{"runs/start.go", "Created: time.Now()", "Created: wallNow()"},
	{"runs/start.go", "lastUsed: time.Now()", "lastUsed: wallNow()"},
	{"runs/turn.go", "Ended: time.Now()", "Ended: wallNow()"},
	{"runs/turn.go", "lastUsed = time.Now()", "lastUsed = wallNow()"},
	{"runs/recover.go", "Ended: time.Now()", "Ended: wallNow()"},
}

// withClock builds an innerd whose wall clock a test can turn, of the very
// sources but for where they look at the clock.
func withClock(t *testing.T) string {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	root := filepath.Join(filepath.Dir(here), "..", "..")
	dir := t.TempDir()
	replace, texts := map[string]string{}, map[string]string{}
	for _, seam := range seams {
		path := filepath.Join(root, seam.file)
		if _, ok := texts[path]; !ok {
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			texts[path] = string(raw)
		}
		if !strings.Contains(texts[path], seam.from) {
			t.Fatalf("%s looks at the clock otherwise than with %q: say in seams how", seam.file, seam.from)
		}
		texts[path] = strings.ReplaceAll(texts[path], seam.from, seam.to)
	}
	for _, pkg := range []string{"events/journal", "runs"} {
		texts[filepath.Join(root, pkg, "zz_clock.go")] = fmt.Sprintf(clockSource, filepath.Base(pkg))
	}
	for path, text := range texts {
		if !strings.HasSuffix(path, "zz_clock.go") {
			text += "\nvar _ = time.Now\n" // where nothing else is left of it
		}
		to := filepath.Join(dir, strings.NewReplacer("/", "_").Replace(path))
		write(t, to, []byte(text))
		replace[path] = to
	}
	raw, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "overlay.json"), raw)
	binary := filepath.Join(dir, "innerd")
	goBuild(t, "-overlay", filepath.Join(dir, "overlay.json"), "-trimpath", "-o", binary)
	return binary
}

// A wall clock that jumps is a matter of the times in the log alone: order is
// by id, deadlines go on, and nothing is lost, also over a restart in another
// year.
func TestClockThatJumps(t *testing.T) {
	t.Parallel()
	binary := withClock(t)
	both(t, func(t *testing.T, c *cast) { jumpClock(t, c, binary) })
}

func jumpClock(t *testing.T, c *cast, binary string) {
	began := time.Now()
	r := c.rig(t)
	r.Binary = binary
	clock := filepath.Join(r.Home, "clock")
	r.Env = append(r.Env, clockEnv+"="+clock)
	// What ended two years ago, as the clock says after the restart, goes otherwise.
	r.Args = append(r.Args, "--retention", "876000h")
	const year = 365 * 24 * time.Hour
	jump := func(by time.Duration) { write(t, clock, fmt.Append(nil, by.Milliseconds())) }
	jump(0)
	r.start()
	run := c.actor(t, r).does(t, map[string]any{"timeout_s": 300}, paced(400, 30, 2000), look("1"), paced(400, 30, 2000), look("2"), say("over"))
	left := c.actor(t, r).does(t, nil, say("a"), look("x"))
	server.Until[events.ToolRequest](left, 1)
	tasks := []string{run.TaskID(), left.TaskID()}
	ledgers := []*ledger.Ledger{ledger.New(), ledger.New()}
	var readers []*reading
	for i, task := range tasks {
		readers = append(readers, r.returning(ledgers[i], "returning", task))
	}
	attached := r.attached(ledgers[0], "attached", tasks[0], 0)
	for i, by := range []time.Duration{year, -2 * year} {
		call := server.Until[events.ToolRequest](run, i+1)
		jump(by) // the fault
		server.Eventually(t, "the server's clock has jumped", func() bool { return r.clockIs(by) })
		r.Result(call.ToolCallID, map[string]any{"result": "go on"})
	}
	run.Completed()
	attached.Whole()
	attached.clean()
	r.Kill()
	jump(year / 2)
	unasked := c.again(t, r)
	for _, p := range readers {
		p.clean()
	}
	r.endedBy(t, tasks[1], events.ErrAdapterRestarted)
	var back bool
	for i, e := range run.Events()[1:] {
		back = back || e.TS < run.Events()[i].TS
	}
	if !back {
		t.Error("the times of the log never went back: the clock did not jump")
	}
	var res ledger.Result
	for i, task := range tasks {
		r.late(ledgers[i], "late", task)
		res.Add(r.compare(ledgers[i], task))
	}
	unasked()
	c.result(t, "wall clock a year ahead, two back, killed, ahead again", res, began)
}

// clockIs reports whether a run that begins now is logged at a time that is so
// far ahead.
func (r *rig) clockIs(by time.Duration) bool {
	p := r.Post(r.T, simulate(`[{"text":"what time is it?"}]`, nil)).Completed()
	ahead := time.Until(time.UnixMilli(p.Events()[0].TS)) - by
	r.Call(http.MethodDelete, "/tasks/"+p.TaskID(), nil)
	return ahead.Abs() < time.Hour
}
