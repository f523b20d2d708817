//go:build linux

package soak_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"innerd/test/server"
)

const (
	// largeBody is just below the limit of a body, a quarter of the usual one: with
	// that eight of them take a minute of both processors.
	largeBody  = 14 << 20 // bytes
	largeLimit = "INNERD_MAX_BODY=15MiB"
	// largePeak is what eight of them that come at once may take of memory, in
	// bytes: see docs/reliability.md for what they took.
	largePeak = 575e6
	// largeStays is what they may leave, over what was there before the first run:
	// likely the runtime's own books of the heap that it once had.
	largeStays = 30e6
)

// sendLarge sends a run with a large prompt, which the answer has in it, and
// gives the answer's length.
func sendLarge(c *client, i int) (int64, error) {
	head := fmt.Sprintf(`{"metadata":{"backend":"simulate","task_id":"large-run-%d","agent_options":{"script":[{"text":"ok"}]}},"messages":[{"role":"user","content":"`, i)
	body := io.MultiReader(strings.NewReader(head), io.LimitReader(words{}, largeBody), strings.NewReader(`"}]}`))
	req, err := http.NewRequest(http.MethodPost, c.url+"/message:send", body)
	if err != nil {
		return 0, err
	}
	req.ContentLength = int64(len(head)) + largeBody + 4
	req.Header.Set("Authorization", "Bearer "+c.key)
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	n, err := io.Copy(io.Discard, resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || n < largeBody) {
		err = fmt.Errorf("status %d, %d bytes", resp.StatusCode, n)
	}
	return n, err
}

// words is a text without an end.
type words struct{}

// Read implements io.Reader.
func (words) Read(p []byte) (int, error) {
	return copy(p, bytes.Repeat([]byte("word "), len(p)/5+1)), nil
}

// peak is the most memory that a process ever had, in bytes.
func peak(t *testing.T, pid int) (bytes float64) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(string(status), "VmHWM:")
	if _, err := fmt.Sscan(line, &bytes); err != nil {
		t.Fatal(err)
	}
	return bytes * 1024
}

// Large requests that come at once take turns, and what they needed is given
// back when the last answer has been read, however long after its run that is.
func TestLargeBodies(t *testing.T) {
	s := server.New(t, binary)
	s.Env = append(s.Env, largeLimit)
	s.Start()
	before, err := look(s.Pid())
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(t, s)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() { // ends with its answer
			if _, err := sendLarge(c, i); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	most := peak(t, s.Pid())
	if most > largePeak {
		t.Errorf("they took %.0f MB", most/1e6)
	}
	// The server rests, and only an answer is on: it is read to its end much later.
	resp, err := c.open(t.Context(), http.MethodGet, "/tasks/large-run-0", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	time.Sleep(givesBack)   // nothing says that a server has given memory back
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Error(err)
	}
	var after vitals
	defer func() {
		t.Logf("%.0f MB at the most, %.1f of its own at rest, %.1f before", most/1e6, mb(after.anon), mb(before.anon))
	}()
	within(t, time.Minute, "it gives back what it does not need", func() bool { // not longer: see TestRestGivesMemoryBack
		after, err = look(s.Pid())
		return err == nil && after.anon <= before.anon+largeStays
	})
}
