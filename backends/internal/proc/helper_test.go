package proc_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"innerd/backends/internal/proc"
)

// childVar makes this test binary the child that it names.
const childVar = "PROC_TEST_CHILD"

// TestMain runs a child of childBodies where it is told to, else the tests.
func TestMain(m *testing.M) {
	if name := os.Getenv(childVar); name != "" {
		body, ok := childBodies[name]
		if !ok {
			fmt.Fprintln(os.Stderr, "no child", name)
			os.Exit(99)
		}
		body()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// testSupervisor is one with the id that its marks begin with.
type testSupervisor struct {
	*proc.Supervisor
	id string
}

// supervisor makes one that is closed at the test's end, and its state directory.
func supervisor(t *testing.T) (testSupervisor, string) {
	t.Helper()
	state := t.TempDir()
	id := fmt.Sprintf("T%d-%d", os.Getpid(), time.Now().UnixNano())
	s := testSupervisor{proc.New(proc.Options{StateDir: state, ServerID: id, Starter: starter(t)}), id}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s, state
}

// starter makes what supervisors start children with; nil: they do themselves.
var starter = func(*testing.T) proc.Starter { return nil }

// program is what children run: this test binary, or a copy of it.
var program = os.Args[0]

// self makes cmd one that runs a body of childBodies.
func (s testSupervisor) self(body string, cmd proc.Command) proc.Command {
	cmd.Name, cmd.Path = body, program
	cmd.Env = append(s.Environ(map[string]string{
		childVar: body, "GOCOVERDIR": os.TempDir(), "GORACE": "atexit_sleep_ms=0",
	}), cmd.Env...)
	return cmd
}

// lines collects what a child says.
type lines struct {
	mu  sync.Mutex
	got []string
}

func (l *lines) add(b []byte) {
	l.mu.Lock()
	l.got = append(l.got, string(b))
	l.mu.Unlock()
}

func (l *lines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.got...)
}

var childBodies = map[string]func(){
	"echo": func() {
		in := bufio.NewScanner(os.Stdin)
		for in.Scan() {
			fmt.Println(in.Text())
		}
		fmt.Fprintln(os.Stderr, "bye")
		os.Exit(7)
	},
}
