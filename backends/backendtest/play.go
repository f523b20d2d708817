package backendtest

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"innerd/backends"
	"innerd/events"
)

// player plays the turns of one conversation.
type player struct {
	t      testing.TB
	shared *shared
	name   string
	seat   Seat
	dir    string
	added  string // a directory beside it; "": there is none
	id     string
	conv   backends.Conversation
	played []played

	loggedOut bool
	told      strings.Builder // what was said so far, for a new session
	cases     strings.Builder // that were played in it before, where it is kept

	mu      sync.Mutex
	session backends.Session // as it was last saved
	strays  []events.Event
}

// played is a turn that is over: nothing more may come of it.
type played struct {
	name   string
	rec    *Recorder
	faults int // that were reported
}

func newPlayer(t testing.TB, s *shared, c Case, name string) *player {
	p := &player{
		t: t, shared: s, name: name, seat: s.rig.Seat(t, c), dir: directory(t), id: "01" + rand.Text()[:24], loggedOut: c.LoggedOut,
	}
	if strings.Contains(c.text(), InAdded) {
		p.added = directory(t)
	}
	if s.rig.Table != "" {
		p.sees()
	}
	return p
}

// sees: a table claims what its rig can see.
func (p *player) sees() {
	if _, ok := p.seat.(Viewer); !ok {
		p.t.Errorf("the rig's seat is no Viewer: what was asked for is not seen")
	}
	if _, ok := p.seat.(Counter); !ok && p.shared.rig.Lacks[NeedRequests] == "" {
		p.t.Errorf("the rig's seat is no Counter: the requests to the model are not counted")
	}
}

// directory makes a directory whose path is the same when links are resolved.
func directory(t testing.TB) string {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// play plays the turns in order, up to the first that can't be played.
func (p *player) play(turns []Turn) {
	for i, turn := range turns {
		if !p.turn(fmt.Sprintf("conversation %s, turn %d", p.name, i+1), turn) {
			return
		}
	}
}

func (p *player) turn(name string, turn Turn) bool {
	turn = p.shared.rig.expand(turn, p.dir, p.added)
	if !p.files(name, turn.Files) || !p.before(name, turn.Before) || !p.ready(name) || !p.compact(name, turn.Compact) {
		return false
	}
	setup := p.seat.Arrange(turn.Steps)
	in := input(turn, setup)
	starts := p.starts()
	rec, out, err := p.run(name, turn, in)
	if errors.Is(err, backends.ErrNewSession) {
		if n := len(rec.Events()); n > 0 {
			p.t.Errorf("%s: ErrNewSession after %d events", name, n)
		}
		p.save(backends.Session{})
		if !p.end(name) || !p.ready(name) {
			return false
		}
		in.History = p.history() + in.History
		rec, out, err = p.run(name, turn, in)
	}
	if rec == nil {
		return false
	}
	faults := rec.Faults()
	known := len(faults)
	r := p.result(rec, out, err)
	faults = append(faults, CheckOrder(r.Events, r.Completed)...)
	faults = append(faults, turn.Want.Check(r, turn.Host.Cancel.some())...)
	faults = append(faults, p.after(turn.Want, starts)...)
	for _, f := range faults {
		p.t.Errorf("%s: %s", name, f)
	}
	if len(faults) > 0 {
		p.t.Logf("%s: Run returned %+v, %v; the log:\n%s", name, out, err, Dump(r.Events))
	}
	p.played = append(p.played, played{name, rec, known})
	p.remember(turn, r)
	return len(faults) == 0
}

// remember keeps what was said, as a run does.
func (p *player) remember(turn Turn, r Result) {
	fmt.Fprintf(&p.told, "user: %s\n", turn.Prompt)
	for _, m := range fold(r.Events).messages {
		fmt.Fprintf(&p.told, "assistant: %s\n", m)
	}
}

// history is what a new session is told of the turns before.
func (p *player) history() string {
	if p.told.Len() == 0 {
		return ""
	}
	return "<conversation_history>\n" + p.told.String() + "</conversation_history>"
}

// files writes what shall be in the directory.
func (p *player) files(name string, files map[string]string) bool {
	for _, path := range slices.Sorted(maps.Keys(files)) {
		full := in(p.dir, path)
		err := os.MkdirAll(filepath.Dir(full), 0o755)
		if err == nil {
			err = os.WriteFile(full, []byte(files[path]), 0o755)
		}
		if err != nil {
			p.t.Errorf("%s: %v", name, err)
			return false
		}
	}
	return true
}

// run has the conversation run the turn. A nil recorder says that it never
// returned.
func (p *player) run(name string, turn Turn, in backends.Input) (*Recorder, backends.Outcome, error) {
	var steering, canceling sync.WaitGroup
	defer canceling.Wait()
	ctx, cancel := context.WithCancelCause(p.t.Context())
	defer cancel(nil)
	cause := backends.ErrCanceled
	if turn.Host.Cancel.Stalled {
		cause = backends.ErrStalled
	}
	rec := NewRecorder(turn, p.first(name), func() {
		if !p.makes(turn.Host.Cancel) {
			cancel(cause)
			return
		}
		canceling.Go(func() { // ends with the run's context at the latest
			p.awaitFile(ctx, name, turn.Host.Cancel.Began)
			cancel(cause)
		})
	})
	rec.OnSteer(func() { p.steer(ctx, name, turn, rec, &steering) })
	limit := p.shared.rig.limit(turn)
	type returned struct {
		out backends.Outcome
		err error
	}
	done := make(chan returned, 1)
	conv := p.conv
	go func() { // ends with Run; the test fails if that does not return
		r := returned{}
		defer func() {
			if v := recover(); v != nil && turn.Host.Panics { // as the runs of a server do
				r.err = backends.Panicked(v)
			} else if v != nil {
				panic(v)
			}
			done <- r
		}()
		r.out, r.err = conv.Run(ctx, in, rec)
	}()
	if turn.Host.Cancel.Early {
		p.asked(name)
		cancel(cause)
	}
	over := time.NewTimer(limit)
	defer over.Stop()
	select {
	case r := <-done:
		steering.Wait()
		rec.Close()
		p.steered(name, turn, rec)
		return rec, r.out, r.err
	case <-over.C:
		p.t.Errorf("%s: Run did not return in %v; the log:\n%s", name, limit, Dump(rec.Events()))
	}
	cancel(backends.ErrDeadline)
	select {
	case <-done:
	case <-time.After(p.shared.rig.grace() + soon):
		p.t.Errorf("%s: Run does not return, even canceled", name)
	}
	rec.Close()
	return nil, backends.Outcome{}, nil
}

// first checks, before the first event, that the session was saved.
func (p *player) first(name string) func() {
	return func() {
		if p.saved().Zero() {
			p.t.Errorf("%s: no session was saved before the first event", name)
		}
	}
}

func (p *player) asked(name string) {
	w, ok := p.seat.(Waiter)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(p.t.Context(), soon)
	defer cancel()
	if err := w.Asked(ctx); err != nil {
		p.t.Errorf("%s: the model was never asked: %v", name, err)
	}
}

func (p *player) result(rec *Recorder, out backends.Outcome, err error) Result {
	r := Result{Events: rec.Events(), Heard: p.seat.Heard(), Output: out.Output, Before: p.takeStrays()}
	if v, ok := p.seat.(Viewer); ok {
		seen := v.Seen()
		r.Seen = &seen
	}
	if c, ok := p.seat.(Counter); ok {
		asks := c.Asks()
		r.Asks = &asks
	}
	var failed *backends.Error
	switch {
	case err == nil:
		r.Completed, r.Reason = true, out.Reason
	case errors.As(err, &failed):
		r.ErrorType, r.Exit, r.RetryAfter = failed.Type, failed.Exit, failed.RetryAfter
	case errors.Is(err, backends.ErrCanceled) || errors.Is(err, backends.ErrStalled):
		r.Canceled = true
	default:
		r.ErrorType = "(not an *Error: " + err.Error() + ")"
	}
	return r
}

func (p *player) after(w Want, starts int) (faults []string) {
	if w.Warm && isDone(p.conv) {
		faults = append(faults, "the conversation takes no further run")
	}
	if n := p.starts(); w.Warm && n != starts {
		faults = append(faults, fmt.Sprintf("%d processes were started for a warm turn", n-starts))
	}
	if w.Gone {
		select {
		case <-p.conv.Done():
		case <-time.After(soon):
			faults = append(faults, "Done is not closed")
		}
	}
	return append(faults, w.CheckOutside(p.dir)...)
}

func (p *player) starts() int {
	if s, ok := p.seat.(Starter); ok {
		return s.Starts()
	}
	return 0
}

// Dump writes a log for people.
func Dump(log []events.Event) string {
	var out []byte
	for i, e := range log {
		if i == 50 && len(log) > 100 {
			out = fmt.Appendf(out, "  … %d more …\n", len(log)-100)
		}
		if i >= 50 && i < len(log)-50 {
			continue
		}
		raw, _ := json.Marshal(e.Data)
		out = fmt.Appendf(out, "  %4d %-28s %s\n", e.ID, e.Type(), short(string(raw)))
	}
	return string(out)
}
