package proc_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"innerd/backends/internal/proc"
)

func TestPlain(t *testing.T) {
	s, state := supervisor(t)
	var got lines
	c, err := s.Start(t.Context(), s.self("echo", proc.Command{Conversation: "01CONV", OnLine: got.add}))
	if err != nil {
		t.Fatal(err)
	}
	if want := s.id + ".01CONV."; !strings.HasPrefix(c.Mark(), want) {
		t.Errorf("mark %q does not begin with %q", c.Mark(), want)
	}
	if files, _ := os.ReadDir(filepath.Join(state, "children")); len(files) != 1 {
		t.Errorf("%d records while a child runs", len(files))
	}
	for i := range 1000 {
		if err := c.Send(fmt.Appendf(nil, "line %d", i)); err != nil {
			t.Fatal(err)
		}
	}
	c.CloseInput()
	await(t, c.Done())
	if e := c.Exit(); e.Code != 7 || e.Signal != "" || e.StderrTail != "bye\n" {
		t.Errorf("exit %+v", e)
	}
	for i, l := range got.all() {
		if want := fmt.Sprintf("line %d", i); l != want {
			t.Fatalf("line %q, want %q", l, want)
		}
	}
	if n := len(got.all()); n != 1000 {
		t.Errorf("%d lines", n)
	}
	if files, _ := os.ReadDir(filepath.Join(state, "children")); len(files) != 0 {
		t.Errorf("%d records after the end", len(files))
	}
	if err := c.Send([]byte("x")); !errors.Is(err, proc.ErrClosed) {
		t.Errorf("Send after the end: %v", err)
	}
	if err := c.Stop(t.Context()); err != nil {
		t.Errorf("Stop after the end: %v", err)
	}
}

func TestStartErrors(t *testing.T) {
	s, state := supervisor(t)
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/no/such/interpreter\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, say string
		cmd       proc.Command
		want      error
	}{
		{"missing", "no such file", proc.Command{Path: "/no/such/program"}, fs.ErrNotExist},
		{"not in PATH", "not found", proc.Command{Path: "no-such-program", Env: []string{"PATH=/bin"}}, nil},
		{"no rights", "permission denied", proc.Command{Path: plain}, fs.ErrPermission},
		{"directory", "working directory", proc.Command{Path: "/bin/sh", Dir: "/no/such/dir"}, fs.ErrNotExist},
		{"interpreter", "interpreter", proc.Command{Path: script}, fs.ErrNotExist},
		{"NUL", "NUL", proc.Command{Path: "/bin/sh", Env: []string{"A=b\x00c"}}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.cmd.Name = "agent"
			_, err := s.Start(t.Context(), tt.cmd)
			var start *proc.StartError
			if !errors.As(err, &start) || !strings.Contains(err.Error(), tt.say) {
				t.Errorf("error %v, want one that says %q", err, tt.say)
			}
			if tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("error %v is not %v", err, tt.want)
			}
		})
	}
	if files, _ := os.ReadDir(filepath.Join(state, "children")); len(files) != 0 {
		t.Errorf("%d records are left", len(files))
	}
}

func TestEnviron(t *testing.T) {
	t.Setenv("LC_TIME", "C")
	t.Setenv("ANTHROPIC_API_KEY", "secret")
	t.Setenv("MY_OWN", "1")
	t.Setenv("INNERD_MARK", "someone else's")
	s := proc.New(proc.Options{Inherit: []string{"MY_*"}})
	env := strings.Join(s.Environ(map[string]string{"HOME": "/agent", "A=B": "x", "NEW": "v"}), "\n") + "\n"
	for _, want := range []string{"LC_TIME=C\n", "MY_OWN=1\n", "HOME=/agent\n", "NEW=v\n", "PATH="} {
		if !strings.Contains(env, want) {
			t.Errorf("no %q in\n%s", want, env)
		}
	}
	for _, no := range []string{"secret", "INNERD_MARK", "A=B"} {
		if strings.Contains(env, no) {
			t.Errorf("%q in\n%s", no, env)
		}
	}
}

func await(t *testing.T, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("waited too long")
	}
}
