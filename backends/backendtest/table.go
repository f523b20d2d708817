package backendtest

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// What stands in a table file for one thing that was tried.
const (
	OK = "ok"
	// Partly begins a result that is right but for something: "ok but: …".
	Partly = "ok but: "
	// No begins the reason why an agent cannot do it: "no: …".
	No = "no: "
)

// Results are what a table file holds: what was tried, by name, and how it
// went. Names of Long are only tried with INNERD_LONG=1.
type Results struct {
	Agent   string            `json:"agent"`
	Results map[string]string `json:"results"`
	Long    map[string]string `json:"long,omitempty"`
}

// ReadResults reads a table file.
func ReadResults(path string) (Results, error) {
	r := Results{}
	raw, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return r, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// Table is what a run of tests finds out, against what its file says. What
// was not tried is not compared, so that a part of the tests may be run; what
// failed is never written. Its methods may be called at the same time.
type Table struct {
	t     testing.TB
	path  string
	agent string

	mu     sync.Mutex
	found  Results
	failed map[string]bool
}

// OpenTable begins a table of one agent. When t and its subtests are over, it
// compares the file at path with what was recorded: any difference is a
// failure of t, and so are entries that are none of names. With the test
// flag -update it writes them instead; a package without that flag defines it:
//
//	var _ = flag.Bool("update", false, "write what was found")
func OpenTable(t testing.TB, path, agent string, names []string) *Table {
	tb := &Table{
		t: t, path: path, agent: agent, failed: map[string]bool{},
		found: Results{Agent: agent, Results: map[string]string{}, Long: map[string]string{}},
	}
	t.Cleanup(func() { tb.close(names) })
	return tb
}

// Record says how something went: why is "" where it works, the reason where
// the agent cannot do it. long says that it is only tried with INNERD_LONG=1.
func (tb *Table) Record(name, why string, long bool) {
	result := OK
	if why != "" {
		result = No + why
	}
	tb.set(name, result, long)
}

// But says that something works but for what why tells.
func (tb *Table) But(name, why string, long bool) { tb.set(name, Partly+why, long) }

// Fail says that something went wrong, whatever else is said of it.
func (tb *Table) Fail(name string) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.failed[name] = true
}

func (tb *Table) set(name, result string, long bool) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	into := tb.found.Results
	if long {
		into = tb.found.Long
	}
	into[name] = result
}

// Ended records a subtest by how it ended: call it by defer in the subtest.
func (tb *Table) Ended(t testing.TB, name, why string, long bool) {
	if t.Failed() {
		tb.Fail(name)
		return
	}
	tb.Record(name, why, long)
}

func (tb *Table) close(names []string) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	old, err := ReadResults(tb.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		tb.t.Error(err)
		return
	}
	for name := range tb.failed {
		delete(tb.found.Results, name)
		delete(tb.found.Long, name)
	}
	if !updates() {
		if drift := tb.drift(old, names); len(drift) > 0 {
			tb.t.Errorf("%s is not what was found; run this test with -update, then that of test/table:\n\t%s", tb.path, strings.Join(drift, "\n\t"))
		}
		return
	}
	next := Results{
		Agent:   tb.agent,
		Results: tb.merge(old.Results, tb.found.Results, names),
		Long:    tb.merge(old.Long, tb.found.Long, names),
	}
	if err := writeResults(tb.path, next); err != nil {
		tb.t.Error(err)
	}
}

// updates reports whether the test's -update is set.
func updates() bool {
	f := flag.Lookup("update")
	return f != nil && f.Value.String() == "true"
}

// drift is what the file says otherwise. Failures speak for themselves.
func (tb *Table) drift(old Results, names []string) (out []string) {
	if old.Agent != tb.agent {
		out = append(out, fmt.Sprintf("is of %q, not of %q", old.Agent, tb.agent))
	}
	for _, m := range []struct{ old, found map[string]string }{{old.Results, tb.found.Results}, {old.Long, tb.found.Long}} {
		for name, found := range m.found {
			if was := m.old[name]; was != found {
				out = append(out, fmt.Sprintf("%s is %q, was %q", name, found, was))
			}
		}
		for name := range m.old {
			if !slices.Contains(names, name) {
				out = append(out, fmt.Sprintf("%s is nothing that is tried any more", name))
			}
		}
	}
	slices.Sort(out)
	return out
}

// merge is what the file shall say: what was found, and of the rest what it
// said before. What failed is claimed no longer.
func (tb *Table) merge(old, found map[string]string, names []string) map[string]string {
	out := map[string]string{}
	for name, result := range old {
		if slices.Contains(names, name) && !tb.failed[name] {
			out[name] = result
		}
	}
	for name, result := range found {
		out[name] = result
	}
	return out
}

func writeResults(path string, r Results) error {
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(out.String()), 0o644)
}
