//go:build linux

package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Marked are the processes that this server started, and what they started:
// all carry its mark.
func (s *Server) Marked() []int {
	raw, _ := os.ReadFile(filepath.Join(s.State, "VERSION")) // none: nothing was started
	var v struct{ ID string }
	if json.Unmarshal(raw, &v) != nil || v.ID == "" {
		return nil
	}
	return MarkedWith(v.ID + ".")
}

// Conversing are those of them that may have a conversation: an agent that is only
// asked for its version has none, and ends by itself.
func (s *Server) Conversing() []int {
	return slices.DeleteFunc(s.Marked(), func(pid int) bool {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return err != nil || slices.Contains(strings.Split(string(raw), "\x00"), "--version")
	})
}

// Strays are the marked ones that the server that runs now has not started
// itself: it asks its agents for their versions.
func (s *Server) Strays() []int {
	return slices.DeleteFunc(s.Marked(), func(pid int) bool {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		return err != nil || strings.Contains(string(raw), fmt.Sprintf("\nPPid:\t%d\n", s.Pid()))
	})
}

// MarkedWith are the processes whose mark begins so.
func MarkedWith(mark string) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range all {
		environ, _ := os.ReadFile(path) // gone, or not ours
		for v2 := range bytes.SplitSeq(environ, []byte{0}) {
			if bytes.HasPrefix(v2, []byte("INNERD_MARK="+mark)) {
				pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
				pids = append(pids, pid)
			}
		}
	}
	slices.Sort(pids)
	return pids
}

// KillAgents ends all processes that the server started with SIGKILL. None is
// an error.
func (s *Server) KillAgents() error {
	pids := s.Marked()
	if len(pids) == 0 {
		return fmt.Errorf("no agent runs")
	}
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may be gone
	}
	return nil
}

// Describe says which processes those are.
func Describe(pids []int) string {
	var out []string
	for _, pid := range pids {
		cmd, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		out = append(out, fmt.Sprintf("%d %.100q", pid, bytes.ReplaceAll(cmd, []byte{0}, []byte{' '})))
	}
	return strings.Join(out, ", ")
}
