//go:build linux

package proc_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"innerd/backends/internal/proc"
)

// One conversation's commands end; the process, and another's, go on.
func TestSweepPart(t *testing.T) {
	s, _ := supervisor(t)
	c, _ := s.running(t, "parts", proc.Command{})
	eventually(t, "both commands run", func() bool {
		return len(marked(t, c.Mark()+".A")) == 1 && len(marked(t, c.Mark()+".B")) == 1
	})
	if err := c.Sweep(t.Context(), "A"); err != nil {
		t.Fatal(err)
	}
	if a, all := marked(t, c.Mark()+".A"), marked(t, c.Mark()); len(a) != 0 || len(all) != 2 {
		t.Errorf("of A: %v, of all: %v", a, all)
	}
	stop(t, c)
}

// The same for an agent that marks its commands with a variable of its own.
func TestSweepWith(t *testing.T) {
	s, _ := supervisor(t)
	c, _ := s.running(t, "parts", proc.Command{})
	other, _ := s.running(t, "parts", proc.Command{})
	eventually(t, "all commands run", func() bool { return len(marked(t, c.Mark()+"."))+len(marked(t, other.Mark()+".")) == 4 })
	if err := c.SweepWith(t.Context(), "TEST_SESSION=A"); err != nil {
		t.Fatal(err)
	}
	if a, all := marked(t, c.Mark()+".A"), marked(t, c.Mark()); len(a) != 0 || len(all) != 2 {
		t.Errorf("of A: %v, of all: %v", a, all)
	}
	if left := marked(t, other.Mark()+"."); len(left) != 2 {
		t.Errorf("the other child's: %v", left)
	}
	if err := c.SweepWith(t.Context(), "=x"); err == nil {
		t.Error("a sweep of no variable")
	}
	stop(t, c)
	stop(t, other)
}

// All commands end, whatever session they went into; the process goes on.
func TestSweepCommands(t *testing.T) {
	s, _ := supervisor(t)
	c, _ := s.running(t, "parts", proc.Command{})
	eventually(t, "both commands run", func() bool { return len(marked(t, c.Mark())) == 3 })
	if err := c.SweepCommands(t.Context()); err != nil {
		t.Fatal(err)
	}
	if all := marked(t, c.Mark()); len(all) != 1 || all[0] != fmt.Sprintf("/proc/%d/environ", c.PID()) {
		t.Errorf("left: %v, the process is %d", all, c.PID())
	}
	stop(t, c)
}

// An agent in a script that waits for it is left alone as one that is our own
// child: only its commands end, all or a part of them, also those that have
// opened its pipes.
func TestSweepInAScript(t *testing.T) {
	for _, body := range []string{"parts", "parts-redirect", "wrapper", "wrapper-session", "wrapper-tee"} {
		for name, c := range map[string]struct {
			sweep func(*proc.Child) error
			left  int // commands
		}{
			"all":      {func(c *proc.Child) error { return c.SweepCommands(t.Context()) }, 0},
			"part":     {func(c *proc.Child) error { return c.Sweep(t.Context(), "A") }, 1},
			"variable": {func(c *proc.Child) error { return c.SweepWith(t.Context(), "TEST_SESSION=A") }, 1},
		} {
			t.Run(body+"/"+name, func(t *testing.T) {
				s, _ := supervisor(t)
				child, _ := s.running(t, body, proc.Command{})
				commands := func() int { return len(marked(t, child.Mark()+".")) }
				eventually(t, "both commands run", func() bool { return commands() == 2 })
				agents := len(marked(t, child.Mark())) - 2
				if err := c.sweep(child); err != nil {
					t.Fatal(err)
				}
				if got := commands(); got != c.left {
					t.Errorf("%d commands are left, want %d", got, c.left)
				}
				if got := len(marked(t, child.Mark())) - c.left; got != agents {
					t.Errorf("of the child and its agent, %d of %d are left", got, agents)
				}
				stop(t, child)
			})
		}
	}
}

// Whether a process is the agent in a script cannot be known without a
// descriptor: it is not taken for a stranger, whom the sweep would end.
func TestAgentInAScriptWithoutDescriptors(t *testing.T) {
	s, _ := supervisor(t)
	child, _ := s.running(t, "wrapper", proc.Command{})
	eventually(t, "both commands run", func() bool { return len(marked(t, child.Mark()+".")) == 2 })
	if all, err := proc.AgentOf(child.PID(), func() {}); err != nil || len(all) != 2 {
		t.Fatalf("the script and its agent: %v, %v", all, err)
	}
	release := func() {}
	all, err := proc.AgentOf(child.PID(), func() { _, release = noDescriptors(t) })
	release()
	if !errors.Is(err, syscall.EMFILE) {
		t.Errorf("what could not be read was taken for known: %v, %v", all, err)
	}
	stop(t, child)
}
