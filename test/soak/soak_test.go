//go:build linux

package soak_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"innerd/events"
	"innerd/test/ledger"
	"innerd/test/report"
	"innerd/test/server"
)

const (
	soakCommand   = "make soak"
	conversations = 50
	readers       = 100
	keptRuns      = 300
)

// soak is one server that is used by everybody for long.
type soak struct {
	ctx     context.Context
	server  *server.Server
	c       *client
	every   time.Duration // so often a conversation has a turn
	floor   floor
	visits  visits
	answers answers
	open    sync.WaitGroup // runs that are not compared yet
	looks   sync.Mutex     // held by who looks at the server

	conversations []*conversation

	mu     sync.Mutex
	result ledger.Result
	states map[string]int
	kinds  map[string]int
	faults []string
}

// Fifty conversations play every kind of step, a hundred readers come and go,
// and hosts answer well and badly: nothing is lost, and when all have gone
// nothing is left of them. The long form measures whether memory grows.
func TestSoak(t *testing.T) {
	t.Parallel()
	warm, main, every := 10*time.Second, 80*time.Second, 5*time.Second
	if long("soak") {
		warm, main, every = time.Minute, lasts(30*time.Minute), 3*time.Second
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := &soak{ctx: ctx, server: server.New(t, binary), every: every, states: map[string]int{}, kinds: map[string]int{}}
	for i := range conversations {
		s.conversations = append(s.conversations, &conversation{s: s, name: fmt.Sprintf("conversation-%02d", i), n: i})
	}
	// So few runs are kept that as many go as come, soon after the beginning.
	s.server.Args = append(s.server.Args, "--max-runs", fmt.Sprint(keptRuns), "--max-warm", fmt.Sprint(conversations+10), "--pprof")
	s.server.Start()
	s.c = newClient(t, s.server)
	if long("soak") {
		s.fill(t)
		s.open.Go(s.longTurn) // ends after three minutes; play waits for it
	}
	s.play(t, warm)
	before := s.rest(t, nil)
	w, calm := &series{}, &series{}
	begin := time.Now()
	watching, stop := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() { w.watch(watching, s.c, s.server.Pid(), &s.looks) }) // ends with stop
	// What a server holds while it works says more of the work than of leaks:
	// now and then all of it ends, and what is left is looked at.
	after := before
	for time.Since(begin) < main && !t.Failed() {
		s.play(t, min(40*time.Second, main-time.Since(begin)))
		after = s.rest(t, &before)
		if most := keptRuns + 1; long("soak") && after.kept > most { // the last small one
			t.Errorf("at rest %d runs are kept, not %d", after.kept, most)
		}
		calm.all = append(calm.all, after)
		t.Logf("at rest: %.2f MB its own, %.2f of its program; heap %.2f MB; of the runtime %.2f",
			mb(after.anon), mb(after.file), after.heap/1e6, after.runtime.in())
	}
	stop()
	watcher.Wait()
	took := time.Since(begin)
	if w.err != nil {
		t.Error(w.err)
	}
	s.verdict(t)
	if most := w.most(rss); most > 200e6 {
		t.Errorf("the server held %.0f MB", most/1e6)
	}
	s.onlyItsProgram(t, w)
	text := s.table(took, before, after, w, calm)
	t.Log("\n" + text)
	if long("soak") && !t.Failed() {
		report.Write(t, "soak", soakCommand, text)
		for name, of := range map[string]func(sample) float64{"heap": heap, "memory of its own": kept} {
			if rise, err := calm.slope(of); rise-2*err > 1e6 {
				t.Errorf("the %s grows by %.2f ± %.2f MB an hour", name, rise/1e6, err/1e6)
			}
		}
	}
}

// play has everybody come for a time, and waits until all have gone and all
// runs were compared.
func (s *soak) play(t *testing.T, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, d)
	defer cancel()
	var wg sync.WaitGroup
	for _, c := range s.conversations {
		wg.Go(func() { c.live(ctx) }) // ends soon after ctx
	}
	for i := range readers {
		wg.Go(func() { s.reader(ctx, i) }) // ends with ctx
	}
	wg.Wait()
	s.open.Wait()
	s.anew(t)
}

// anew has every host begin its conversation anew: what simulated agents
// remember lies in the server's memory, and at each rest it shall be as much.
func (s *soak) anew(t *testing.T) {
	t.Helper()
	for _, c := range s.conversations {
		c.history = nil // nobody lives
		s.small(t, c.name, "begin anew", object{"context_reuse": false})
		c.remember("begin anew", "done")
	}
}

// small makes a run of one step.
func (s *soak) small(t *testing.T, conversation, prompt string, more object) {
	t.Helper()
	body := turn(conversation, prompt, []object{{"text": "done"}}, more)
	status, answer, err := s.c.call(s.ctx, http.MethodPost, "/message:send", body)
	if err != nil || status != http.StatusOK || !bytes.Contains(answer, []byte(events.Completed)) {
		t.Errorf("a small run before a rest: status %d, %v: %.300s", status, err, answer)
	}
}

// longTurn makes a turn that takes longer than any request of a host should.
func (s *soak) longTurn() {
	body := turn("", "take your time", []object{{"sleep_ms": 180_000}, {"text": "at last"}}, nil)
	resp, err := s.c.open(s.ctx, http.MethodPost, "/message:send", body)
	if err != nil {
		s.fail("the long turn: %v", err)
		return
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(text), "at last") {
		s.fail("the long turn: %s, %v: %.300s", resp.Status, err, text)
	}
}

// rest waits until the server has come to rest, and gives what it holds then:
// no more than before, or the test fails.
func (s *soak) rest(t *testing.T, before *sample) (last sample) {
	t.Helper()
	s.looks.Lock()
	defer s.looks.Unlock()
	end, still := time.Now().Add(2*time.Minute), 0
	for still < 3 {
		if time.Now().After(end) {
			_, stacks, _ := s.c.call(s.ctx, http.MethodGet, "/debug/pprof/goroutine?debug=1", nil)
			t.Errorf("the server does not come to rest: %+v; before %+v\n%s", last, before, stacks)
			break
		}
		s.c.http.CloseIdleConnections() // they are ours, not the server's, which sees their end in the pause
		pause(s.ctx, time.Second)
		now, err := s.c.sample(s.ctx, s.server.Pid())
		if err != nil {
			t.Fatal(err)
		}
		calm := now.streams == 0 && now.runs == 0 && now.agents == 0 && now.children == 0
		if before != nil {
			calm = calm && now.goroutines <= before.goroutines && now.fds <= before.fds
		}
		if long("soak") { // retention looks each 30 seconds; what it has not taken yet is noise in the slopes
			calm = calm && now.kept <= keptRuns
		}
		if still++; !calm || now.goroutines != last.goroutines || now.fds != last.fds {
			still = 0
		}
		last = now
	}
	if long("soak") {
		s.goodNight(t)
		pause(s.ctx, givesBack)
	}
	last, err := s.c.collected(s.ctx, s.server.Pid())
	if err != nil {
		t.Fatal(err)
	}
	return last
}

// goodNight makes a last small run: the server gives memory back once for each
// rest, and what it was asked since, while it did not come to rest, took some
// again. From here on it is asked nothing.
func (s *soak) goodNight(t *testing.T) {
	t.Helper()
	s.small(t, "good-night", "rest", nil)
	s.c.http.CloseIdleConnections()
}

func (s *soak) fail(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.faults) < 20 {
		s.faults = append(s.faults, fmt.Sprintf(format, args...))
	}
}

func (s *soak) count(kinds []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range kinds {
		s.kinds[k]++
	}
}

func (s *soak) ended(end events.End) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.states[end.State]++
}

func (s *soak) compared(r ledger.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.result.Faults) > 20 {
		r.Faults = nil
	}
	s.result.Add(r)
}

// verdict fails the test for all that went wrong.
func (s *soak) verdict(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.faults) > 0 {
		t.Errorf("%s", strings.Join(s.faults, "\n"))
	}
	if !s.result.OK() {
		t.Errorf("%v\n%s", s.result, strings.Join(s.result.Faults, "\n"))
	}
	for _, k := range kinds {
		if s.kinds[k] == 0 {
			t.Errorf("no %s was played", k)
		}
	}
	for _, state := range []string{events.Completed, events.Failed, events.Canceled} {
		if s.states[state] == 0 {
			t.Errorf("no run ended as %s", state)
		}
	}
	if v := &s.visits; v.connects.Load() == 0 || v.resumes.Load() == 0 || v.whole.Load() == 0 || v.left.Load() == 0 || v.slow.Load() == 0 {
		t.Errorf("readers did too little: %s", s.visitsLine())
	}
}

func (s *soak) visitsLine() string {
	v := &s.visits
	return fmt.Sprintf("%d connections, %d of them with the last id, %d up to the end, %d left for good, %d slow",
		v.connects.Load(), v.resumes.Load(), v.whole.Load(), v.left.Load(), v.slow.Load())
}

// table is what is printed.
func (s *soak) table(took time.Duration, before, after sample, w, calm *series) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, a, runs := s.result, &s.answers, 0
	for _, n := range s.states {
		runs += n
	}
	var played []string
	for _, k := range kinds {
		played = append(played, fmt.Sprintf("%s %d", k, s.kinds[k]))
	}
	row := func(name string, before, after, most float64, format string) string {
		return fmt.Sprintf("%-22s "+format+"  "+format+"  "+format, name, before, after, most)
	}
	lines := []string{
		fmt.Sprintf("%.1f minutes, %d conversations, %d readers", took.Minutes(), conversations, readers),
		fmt.Sprintf("build                  %s", built(s.server.Binary)),
		fmt.Sprintf("flags                  %s", strings.Join(s.server.Args[1:], " ")),
		fmt.Sprintf("runs                   %d: completed %d, failed %d, canceled %d", runs, s.states[events.Completed], s.states[events.Failed], s.states[events.Canceled]),
		fmt.Sprintf("steps                  %s", strings.Join(played[:14], ", ")),
		fmt.Sprintf("                       %s", strings.Join(played[14:], ", ")),
		fmt.Sprintf("readers                %s", s.visitsLine()),
		fmt.Sprintf("requests               %d tools, %d permissions, %d questions", a.tools.Load(), a.permissions.Load(), a.questions.Load()),
		fmt.Sprintf("hosts                  %d answers late, %d twice, %d never; %d runs canceled, %d steered", a.late.Load(), a.twice.Load(), a.never.Load(), a.canceled.Load(), a.steered.Load()),
		fmt.Sprintf("events                 %v", r),
		fmt.Sprintf("CPU of the server      %.2f cores", (after.cpu-before.cpu).Seconds()/took.Seconds()),
		"                       before   after    the most",
		row("goroutines", float64(before.goroutines), float64(after.goroutines), w.most(func(s sample) float64 { return float64(s.goroutines) }), "%-7.0f"),
		row("descriptors", float64(before.fds), float64(after.fds), w.most(func(s sample) float64 { return float64(s.fds) }), "%-7.0f"),
		row("children", float64(before.children), float64(after.children), w.most(func(s sample) float64 { return float64(s.children) }), "%-7.0f"),
		row("threads", float64(before.threads), float64(after.threads), w.most(func(s sample) float64 { return float64(s.threads) }), "%-7.0f"),
		row("runs that are kept", float64(before.kept), float64(after.kept), w.most(func(s sample) float64 { return float64(s.kept) }), "%-7.0f"),
	}
	lines = append(lines, memoryLines(before, after, w)...)
	if len(calm.all) >= 6 {
		lines = append(lines, slopeLines(calm)...)
	}
	return strings.Join(lines, "\n")
}
