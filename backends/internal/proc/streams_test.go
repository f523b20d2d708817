//go:build linux

package proc_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"innerd/backends/internal/proc"
)

// A child that can say nothing any more, or be told nothing, does not live on
// for ever: whoever waits for it hears of its end.
func TestClosesItsStreams(t *testing.T) {
	for _, stream := range []string{"stdout", "stdin"} {
		t.Run(stream, func(t *testing.T) {
			s, _ := supervisor(t)
			c, _ := s.running(t, "closes-"+stream, proc.Command{Grace: 2 * time.Second})
			if err := c.Send([]byte("are you there?")); err != nil {
				t.Error(err)
			}
			await(t, c.Done())
			if e := c.Exit(); e.Signal != "terminated" || !strings.Contains(e.StderrTail, "closed its "+stream) {
				t.Errorf("exit %+v", e)
			}
		})
	}
}

func TestOutput(t *testing.T) {
	long := strings.Repeat("x", 5<<20)
	tests := []struct {
		body    string
		want    []string
		notices int
		stderr  string
	}{
		{"once", nil, 0, ""},
		{"half", []string{"whole", "hal"}, 0, ""},
		{"long", []string{"next", long, "last"}, 1, ""},
		{"bytes", []string{"a\x00b", "\xff\xfe", "\u0085\u2028\r", ""}, 0, ""},
		{"stderr", nil, 0, "the end\n"},
	}
	for _, tt := range tests {
		t.Run(tt.body, func(t *testing.T) {
			s, _ := supervisor(t)
			var got lines
			notices := 0
			c, err := s.Start(t.Context(), s.self(tt.body, proc.Command{
				OnLine:   got.add,
				OnNotice: func(string) { notices++ },
			}))
			if err != nil {
				t.Fatal(err)
			}
			await(t, c.Done())
			if e := c.Exit(); e.Code != 0 || !strings.HasSuffix(e.StderrTail, tt.stderr) || len(e.StderrTail) > 64<<10 {
				t.Errorf("exit %.200v", e)
			}
			if all := got.all(); len(all) != len(tt.want) {
				t.Fatalf("%d lines, want %d", len(all), len(tt.want))
			}
			for i, l := range got.all() {
				if l != tt.want[i] {
					t.Errorf("line %d: %.80q", i, l)
				}
			}
			if notices != tt.notices {
				t.Errorf("%d notices", notices)
			}
		})
	}
}

// What a child does not read must not keep us from reading what it writes.
func TestNoDeadlock(t *testing.T) {
	s, _ := supervisor(t)
	var c *proc.Child
	var last string
	seen := 0
	_, err := s.Start(t.Context(), s.self("deaf", proc.Command{OnStart: func(started *proc.Child) { c = started }, OnLine: func(b []byte) {
		if seen++; seen <= 8 { // sent from the goroutine that reads
			if err := c.Send(bytes.Repeat([]byte("z"), 1<<20-1)); err != nil {
				t.Errorf("Send: %v", err)
			}
			if seen == 8 {
				c.CloseInput()
			}
		}
		last = string(b)
	}}))
	if err != nil {
		t.Fatal(err)
	}
	await(t, c.Done())
	if want := fmt.Sprint("read ", 8<<20); last != want {
		t.Errorf("%.80q, want %q", last, want)
	}
}

func TestBacklog(t *testing.T) {
	s, _ := supervisor(t)
	c, _ := s.running(t, "forever", proc.Command{})
	piece := make([]byte, 32<<20)
	var err error
	for range 9 {
		if err = c.Send(piece); err != nil {
			break
		}
	}
	if !errors.Is(err, proc.ErrBacklog) {
		t.Errorf("error %v", err)
	}
	stop(t, c) // also frees the writer
}

func TestPanicOfHandler(t *testing.T) {
	s, _ := supervisor(t)
	c, err := s.Start(t.Context(), s.self("panicker", proc.Command{OnLine: func([]byte) { panic("oh no") }}))
	if err != nil {
		t.Fatal(err)
	}
	await(t, c.Done())
	if e := c.Exit(); e.Signal != "killed" || !strings.Contains(e.StderrTail, "oh no") {
		t.Errorf("exit %+v", e)
	}
}
