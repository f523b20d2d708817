package backendtest_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/backends/simulate"
	"innerd/events"
)

// fakeT takes what a case reports about an agent that is wrong on purpose.
type fakeT struct {
	testing.TB
	mu      sync.Mutex
	faults  []string
	skipped string
}

func (f *fakeT) Errorf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = append(f.faults, fmt.Sprintf(format, args...))
}
func (f *fakeT) Logf(string, ...any) {}
func (f *fakeT) Helper()             {}
func (f *fakeT) Fatalf(format string, args ...any) {
	f.Errorf(format, args...)
	runtime.Goexit()
}

func (f *fakeT) Skipf(format string, args ...any) {
	f.skipped = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// mutant is the simulated agent with a fault of its own.
type mutant struct {
	*simulate.Backend
	open func(ctx context.Context, b *simulate.Backend, cfg backends.Config) (backends.Conversation, error)
	host func(h backends.Host) backends.Host
	run  func(ctx context.Context, in backends.Input, h backends.Host, c backends.Conversation) (backends.Outcome, error)

	dirs *[]string // those added to it, of which an agent tells its model

	steer, compact func() error // what it does when it is asked to, instead
}

func (m mutant) Open(ctx context.Context, cfg backends.Config) (backends.Conversation, error) {
	open := m.open
	if open == nil {
		open = func(ctx context.Context, b *simulate.Backend, cfg backends.Config) (backends.Conversation, error) {
			*m.dirs = cfg.AddDirs
			return b.Open(ctx, cfg)
		}
	}
	c, err := open(ctx, m.Backend, cfg)
	return mutantConversation{c, m}, err
}

type mutantConversation struct {
	backends.Conversation
	m mutant
}

func (c mutantConversation) Run(ctx context.Context, in backends.Input, h backends.Host) (backends.Outcome, error) {
	if c.m.host != nil {
		h = c.m.host(h)
	}
	if c.m.run != nil {
		return c.m.run(ctx, in, h, c.Conversation)
	}
	return c.Conversation.Run(ctx, in, h)
}

// Steer implements backends.Steerer.
func (c mutantConversation) Steer(ctx context.Context, parts []events.Part) error {
	if c.m.steer != nil {
		return c.m.steer()
	}
	return c.Conversation.(backends.Steerer).Steer(ctx, parts)
}

// Compact implements backends.Compacter.
func (c mutantConversation) Compact(ctx context.Context) error {
	if c.m.compact != nil {
		return c.m.compact()
	}
	return c.Conversation.(backends.Compacter).Compact(ctx)
}

// hostFunc changes what the agent emits.
type hostFunc struct {
	backends.Host
	emit func(backends.Host, events.Event)
}

func (h hostFunc) Emit(e events.Event) { h.emit(h.Host, e) }

func emits(f func(backends.Host, events.Event)) mutant {
	return mutant{host: func(h backends.Host) backends.Host { return hostFunc{h, f} }}
}

// slowHost has one request at a time, as an agent that waits where it asks.
type slowHost struct{ backends.Host }

func (h slowHost) Request(ctx context.Context, r events.Request) backends.Pending {
	p := h.Host.Request(ctx, r)
	_, _ = p.Wait()
	return p
}

// play plays one case against a mutant and gives what it reported.
func play(t *testing.T, name string, m mutant) *fakeT {
	t.Helper()
	dir := t.TempDir()
	var added []string
	m.dirs = &added
	all := backendtest.All()
	rig := backendtest.Rig{
		Name: "mutant", Turn: 20 * time.Second, Grace: 100 * time.Millisecond,
		Backend: func(testing.TB) backends.Backend {
			m := m
			m.Backend = simulate.New(&simulate.Options{StateDir: dir})
			return m
		},
		Seat:   func(testing.TB, backendtest.Case) backendtest.Seat { return &seat{dir: dir, dirs: &added} },
		Lacks:  map[backendtest.Need]string{backendtest.NeedProcess: "it is a test"},
		Models: [2]string{"simulate-1", "simulate-2"}, Efforts: [2]string{"low", "high"}, Clash: "shell",
		Copy: func(testing.TB, backends.Backend) backends.Backend {
			m := m
			m.Backend = simulate.New(&simulate.Options{StateDir: dir})
			return m
		},
		LoggedOut: func(testing.TB) backends.Backend { return simulate.New(nil) },
		Natives:   []backendtest.NativeTool{{Name: "look"}, {Name: "shell", Input: []byte(`{"command":"true"}`)}},
	}
	all = append(all, backendtest.NativesOf(rig)...)
	i := slices.IndexFunc(all, func(c backendtest.Case) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("no case %q", name)
	}
	f := &fakeT{TB: t}
	done := make(chan struct{})
	go func() { // Fatalf and Skipf end it
		defer close(done)
		backendtest.RunCase(f, rig, all[i])
	}()
	<-done
	return f
}

type seat struct {
	dir, id string
	dirs    *[]string
}

func (s *seat) Config() backends.Config {
	return backends.Config{Save: func(session backends.Session) error { s.id = session.ID; return nil }}
}

func (s *seat) Arrange(steps []backendtest.Step) backendtest.Setup {
	return backendtest.Setup{Settings: backends.Settings{Options: backendtest.Script(steps)}}
}

func (s *seat) told() simulate.Told {
	told, _ := simulate.New(&simulate.Options{StateDir: s.dir}).Told(s.id)
	return told
}

func (s *seat) Seen() backendtest.Seen {
	told := s.told()
	return backendtest.Seen{Model: told.Model, Effort: told.Effort, Tools: told.Tools}
}

func (s *seat) Heard() string {
	told := s.told()
	out := append([]string{told.System}, *s.dirs...)
	for _, e := range told.Entries {
		out = append(out, e.Text)
		for _, p := range e.Parts {
			raw, _ := base64.StdEncoding.DecodeString(p.Data)
			out = append(out, p.Text, p.Name, p.MimeType, p.Data, string(raw))
		}
	}
	return strings.Join(out, "\n")
}

// mutantTest is a fault, a case that must find it, and part of what it says.
type mutantTest struct {
	name, in string
	m        mutant
	fault    string
}

func TestMutantsAreCaught(t *testing.T) {
	for _, test := range append(moreMutants(t), []mutantTest{
		{"a piece twice", "text", emits(func(h backends.Host, e events.Event) {
			h.Emit(e)
			if e.Type() == events.TypeMessageDelta {
				h.Emit(e)
			}
		}), "no message"},
		{"equal pieces once", "equal-deltas", emits(onceOnly()), "no message"},
		{"a tool without an end", "native-tool", emits(without(events.TypeToolComplete)), "has not ended"},
		{"no usage", "text", emits(without(events.TypeUsage)), "0 usages"},
		{"a terminal event", "text", emits(func(h backends.Host, e events.Event) {
			h.Emit(e)
			if e.Type() == events.TypeUsage {
				h.Emit(events.Event{Data: events.End{State: events.Completed}})
			}
		}), "session.end, which only a run may"},
		{"nothing taken back", "retry-discarded", emits(without(events.TypeDiscarded)), "while"},
		{"one call at a time", "calls-8-parallel", mutant{host: func(h backends.Host) backends.Host { return slowHost{h} }}, "did not return"},
		{"a cancel that is a success", "cancel-in-text", mutant{run: func(ctx context.Context, in backends.Input, h backends.Host, c backends.Conversation) (backends.Outcome, error) {
			_, _ = c.Run(ctx, in, h)
			return backends.Outcome{Reason: backends.ReasonEndTurn}, nil
		}}, "was canceled, but ended otherwise"},
		{"an event too late", "text", lateEvent(), "after Run had returned"},
		{"history twice", "history-told-once", mutant{run: func(ctx context.Context, in backends.Input, h backends.Host, c backends.Conversation) (backends.Outcome, error) {
			in.History += in.History
			return c.Run(ctx, in, h)
		}}, "2 times, want once"},
		{"no system text", "system-text", mutant{run: func(ctx context.Context, in backends.Input, h backends.Host, c backends.Conversation) (backends.Outcome, error) {
			in.Set.System = ""
			return c.Run(ctx, in, h)
		}}, "0 times, want once"},
		{"no memory", "resume-after-restart", mutant{open: func(ctx context.Context, b *simulate.Backend, cfg backends.Config) (backends.Conversation, error) {
			cfg.Session = backends.Session{}
			return b.Open(ctx, cfg)
		}}, "was not told"},
		{"no session saved", "text", mutant{open: func(ctx context.Context, b *simulate.Backend, cfg backends.Config) (backends.Conversation, error) {
			cfg.Save = nil
			return b.Open(ctx, cfg)
		}}, "no session was saved"},
		{"a crash without an exit", "crash", mutant{run: func(ctx context.Context, in backends.Input, h backends.Host, c backends.Conversation) (backends.Outcome, error) {
			out, _ := c.Run(ctx, in, h)
			return out, &backends.Error{Type: events.ErrBackendCrashed}
		}}, "does not tell how"},
		{"a class of its own", "error-auth", mutant{run: func(ctx context.Context, in backends.Input, h backends.Host, c backends.Conversation) (backends.Outcome, error) {
			out, _ := c.Run(ctx, in, h)
			return out, &backends.Error{Type: events.ErrInternal}
		}}, `want "auth"`},
		{"a goroutine left", "text", mutant{run: func(ctx context.Context, in backends.Input, h backends.Host, c backends.Conversation) (backends.Outcome, error) {
			leak(t, in)
			return c.Run(ctx, in, h)
		}}, "goroutines were left"},
		{"usage of the conversation", "usage-of-this-run", emits(cumulative()), "usage: input_tokens"},
	}...) {
		t.Run(test.name, func(t *testing.T) {
			f := play(t, test.in, test.m)
			if !strings.Contains(strings.Join(f.faults, "\n"), test.fault) {
				t.Errorf("case %s reported %q, want %q", test.in, f.faults, test.fault)
			}
		})
	}
}

func TestSkippedWithReason(t *testing.T) {
	f := play(t, "resume-after-kill", mutant{})
	if len(f.faults) > 0 || !strings.Contains(f.skipped, "it is a test") {
		t.Errorf("skipped %q, faults %q", f.skipped, f.faults)
	}
}

func without(unwanted events.Type) func(backends.Host, events.Event) {
	return func(h backends.Host, e events.Event) {
		if e.Type() != unwanted {
			h.Emit(e)
		}
	}
}

// onceOnly takes equal pieces for one that came twice.
func onceOnly() func(backends.Host, events.Event) {
	var last events.Data
	return func(h backends.Host, e events.Event) {
		if d, ok := e.Data.(events.MessageDelta); ok {
			if last == e.Data {
				return
			}
			last = d
		}
		h.Emit(e)
	}
}

// cumulative adds up over the turns.
func cumulative() func(backends.Host, events.Event) {
	var sum int64
	return func(h backends.Host, e events.Event) {
		if u, ok := e.Data.(events.Usage); ok {
			sum += *u.InputTokens
			n := sum
			u.InputTokens = &n
			e.Data = u
		}
		h.Emit(e)
	}
}

// lateEvent emits once more when the conversation is closed.
func lateEvent() mutant {
	late := &lateConversation{}
	return mutant{
		host: func(h backends.Host) backends.Host { late.h = h; return h },
		open: func(ctx context.Context, b *simulate.Backend, cfg backends.Config) (c backends.Conversation, err error) {
			late.Conversation, err = b.Open(ctx, cfg)
			return late, err
		},
	}
}

type lateConversation struct {
	backends.Conversation
	h backends.Host
}

func (c *lateConversation) Close(ctx context.Context) error {
	c.h.Emit(events.Event{Data: events.Status{State: events.StateWorking}})
	return c.Conversation.Close(ctx)
}

// leak leaves a turn of another conversation running until the test is over.
func leak(t *testing.T, in backends.Input) {
	in.Set.Options = []byte(`{"script":[{"stall":true}]}`)
	ctx, cancel := context.WithCancel(context.Background())
	c, err := simulate.New(nil).Open(ctx, backends.Config{})
	if err != nil {
		t.Error(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = c.Run(ctx, in, backendtest.NewRecorder(backendtest.Turn{}, nil, nil)) })
	t.Cleanup(func() { cancel(); wg.Wait() })
}
