//go:build linux

package soak_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"innerd/test/server"
)

const (
	// largeAnswerPeak is what eight answers with a task of largeBody bytes may take
	// of memory that are asked for at once, in bytes: see docs/reliability.md for
	// what they took.
	largeAnswerPeak = 200e6
	// leftAlone is how much of a processor a server may take in the two seconds that
	// begin a second after all who asked it for something have left.
	leftAlone = 500 * time.Millisecond
)

// Answers with a large task take turns, and are not made for callers that have
// left.
func TestLargeAnswers(t *testing.T) {
	s := server.New(t, binary)
	s.Env = append(s.Env, largeLimit)
	s.Start()
	c := newClient(t, s)
	resp, err := c.open(t.Context(), http.MethodPost, "/message:stream", map[string]any{
		"messages": []any{map[string]any{"role": "user", "content": "go"}},
		"metadata": map[string]any{
			"backend": "simulate", "task_id": "large-answer",
			"agent_options": map[string]any{"script": []any{map[string]any{"flood": map[string]any{"deltas": 1000, "bytes": largeBody / 1000}}}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	read := func(ctx context.Context, path string) error {
		resp, err := c.open(ctx, http.MethodGet, path, nil)
		if err != nil {
			return err
		}
		defer resp.Body.Close() //nolint:errcheck // only read
		n, err := io.Copy(io.Discard, resp.Body)
		if err == nil && (resp.StatusCode != http.StatusOK || n < largeBody/1000*1000) {
			err = fmt.Errorf("%s: status %d, %d bytes", path, resp.StatusCode, n)
		}
		return err
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() { // ends with its answer
			if err := read(t.Context(), []string{"/tasks/large-answer", "/a2a/tasks/large-answer?A2A-Version=1.0"}[i%2]); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	most := peak(t, s.Pid())
	if most > largeAnswerPeak {
		t.Errorf("they took %.0f MB", most/1e6)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	for range 30 {
		wg.Go(func() { _ = read(ctx, "/tasks/large-answer") }) // ends with the context
	}
	wg.Wait()
	time.Sleep(time.Second) // it may end what it does
	before, err := look(s.Pid())
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second) // is what is measured
	after, err := look(s.Pid())
	if err != nil {
		t.Fatal(err)
	}
	if after.cpu-before.cpu > leftAlone {
		t.Errorf("it works on for %v when all have left", after.cpu-before.cpu)
	}
	t.Logf("%.0f MB at the most; %v of a processor when all had left", most/1e6, after.cpu-before.cpu)
}
