//go:build linux

package soak_test

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"innerd/events"
)

// mapped is how much of its program's file a process has mapped: as much of it
// can be in its memory.
func mapped(pid int) (bytes int64, err error) {
	dir := "/proc/" + strconv.Itoa(pid)
	program, err := os.Readlink(dir + "/exe")
	if err != nil {
		return 0, err
	}
	maps, err := os.ReadFile(dir + "/maps")
	for line := range strings.Lines(string(maps)) {
		if !strings.HasSuffix(strings.TrimSpace(line), " "+program) {
			continue
		}
		var from, to int64
		if _, err := fmt.Sscanf(line, "%x-%x", &from, &to); err != nil {
			return 0, fmt.Errorf("%q: %w", line, err)
		}
		bytes += to - from
	}
	if err == nil && bytes == 0 {
		err = fmt.Errorf("no mapping of %s", program)
	}
	return bytes, err
}

// givesBack is how long after its last run a server has given back the memory
// that only its work needed.
const givesBack = 14 * time.Second

// remembered is how many requests that are over a server remembers (past.go of
// the tool bridge): before it has had as many, its memory grows with each.
const remembered = 8192

// fill has the server resolve as many requests, in as many runs as the soak
// would, so that it is as full from the beginning as it ever gets.
func (s *soak) fill(t *testing.T) {
	t.Helper()
	const each, atOnce = 5, 8
	ask := []object{{"repeat": each, "steps": []object{{"permission": object{"tool": "shell", "input": object{"command": "ls"}, "output": "nothing"}}}}, {"text": "done"}}
	var wg sync.WaitGroup
	for i := range atOnce {
		wg.Go(func() { // ends with its runs
			for n := i; n <= remembered/each; n += atOnce {
				body := turn(fmt.Sprint("fill-", i), fmt.Sprint("turn ", n), ask, object{"permission_mode": "auto"})
				status, answer, err := s.c.call(s.ctx, http.MethodPost, "/message:send", body)
				if err != nil || status != http.StatusOK || !bytes.Contains(answer, []byte(events.Completed)) {
					s.fail("filling: status %d, %v: %.300s", status, err, answer)
					return
				}
			}
		})
	}
	wg.Wait()
}

// runtimeMemory is what the Go runtime of a server has of the machine, in bytes.
type runtimeMemory struct {
	inUse  float64 // spans of the heap in which something is, garbage too
	idle   float64 // of the heap, and not given back
	stacks float64 // of goroutines
	tables float64 // of where a profile's allocations came from
	books  float64 // what else it keeps to know all that: spans, marks
}

// Figures are lines as "# HeapIdle = 123"; some are those in use and all: we
// want all.
var figure = regexp.MustCompile(`(?m)^# (\w+) = (?:\d+ / )?(\d+)$`)

// runtimeOf reads the figures at the end of a profile of the heap as text.
func runtimeOf(profile string) (m runtimeMemory, err error) {
	v := map[string]float64{}
	for _, f := range figure.FindAllStringSubmatch(profile, -1) {
		if v[f[1]], err = strconv.ParseFloat(f[2], 64); err != nil {
			return m, err
		}
	}
	for _, name := range []string{"HeapInuse", "HeapIdle", "HeapReleased", "Stack", "MSpan", "MCache", "BuckHashSys", "GCSys", "OtherSys"} {
		if _, ok := v[name]; !ok {
			err = fmt.Errorf("the profile of the heap does not say %s", name)
		}
	}
	return runtimeMemory{
		inUse: v["HeapInuse"], idle: v["HeapIdle"] - v["HeapReleased"], stacks: v["Stack"],
		tables: v["BuckHashSys"], books: v["MSpan"] + v["MCache"] + v["GCSys"] + v["OtherSys"],
	}, err
}

// in are the same in MB.
func (m runtimeMemory) in() [5]float64 {
	return [5]float64{m.inUse / 1e6, m.idle / 1e6, m.stacks / 1e6, m.tables / 1e6, m.books / 1e6}
}

// What of a sample can grow.
func rss(s sample) float64  { return float64(s.rss) }
func anon(s sample) float64 { return float64(s.anon) }
func file(s sample) float64 { return float64(s.file) }
func heap(s sample) float64 { return s.heap }

// kept is what is the server's own, but for what it keeps only for who asks it
// for profiles, as this test does.
func kept(s sample) float64 { return anon(s) - s.runtime.tables }

// fileSlack is what the kernel's counters may be wrong by, and its own pages in
// each process.
const fileSlack = 1 << 20

// onlyItsProgram fails the test where the server ever held more pages of files
// than its program has: that is why they may grow, up to there.
func (s *soak) onlyItsProgram(t *testing.T, w *series) {
	t.Helper()
	all, err := mapped(s.server.Pid())
	if err != nil {
		t.Error(err)
	}
	if most := w.most(file); most > float64(all+fileSlack) {
		t.Errorf("the server held %.1f MB of files; its program has %.1f", most/1e6, mb(all))
	}
}

// memoryLines are the rows of the table about memory.
func memoryLines(before, after sample, w *series) []string {
	row := func(name string, before, after float64, most string) string {
		return strings.TrimRight(fmt.Sprintf("%-22s %-7.1f  %-7.1f  %s", name, before/1e6, after/1e6, most), " ")
	}
	var lines []string
	for _, l := range []struct {
		name string
		of   func(sample) float64
	}{
		{"memory (RSS), MB", rss},
		{"  its own (RssAnon)", anon},
		{"  its program's file", file},
		{"  shared", func(s sample) float64 { return float64(s.shmem) }},
		{"live heap, MB", heap},
	} {
		lines = append(lines, row(l.name, l.of(before), l.of(after), fmt.Sprintf("%.1f", w.most(l.of)/1e6)))
	}
	b, a := before.runtime, after.runtime
	return append(lines,
		row("heap in use, MB", b.inUse, a.inUse, ""),
		row("stacks, MB", b.stacks, a.stacks, ""),
		row("tables of profiles, MB", b.tables, a.tables, ""),
		row("other books, MB", b.books, a.books, ""))
}

// slopeLines say what grew from rest to rest.
func slopeLines(calm *series) (lines []string) {
	for _, l := range []struct {
		name string
		of   func(sample) float64
	}{{"live heap", heap}, {"its own", anon}, {"without tables", kept}, {"its program's", file}, {"RSS", rss}} {
		rise, err := calm.slope(l.of)
		lines = append(lines, fmt.Sprintf("slope, %-15s %+.2f ± %.2f MB an hour", l.name, rise/1e6, err/1e6))
	}
	return append(lines, fmt.Sprintf("at rest                %d times; the slopes are of the second half", len(calm.all)))
}

// built says how a binary was built.
func built(path string) string {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	out := []string{info.GoVersion}
	for _, s := range info.Settings {
		if s.Key == "-tags" || s.Key == "-trimpath" || s.Key == "-race" || strings.HasPrefix(s.Key, "CGO_ENABLED") || strings.HasPrefix(s.Key, "GOARCH") {
			out = append(out, s.Key+"="+s.Value)
		}
	}
	return strings.Join(out, " ")
}
