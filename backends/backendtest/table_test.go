package backendtest_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"innerd/backends/backendtest"
)

var update = flag.Bool("update", false, "only turned on and off by tests here")

// cleaner is a test whose cleanups run when it is told.
type cleaner struct {
	fakeT
	cleanups []func()
}

func (c *cleaner) Cleanup(f func()) { c.cleanups = append(c.cleanups, f) }

func (c *cleaner) end() string {
	for _, f := range c.cleanups {
		f()
	}
	return strings.Join(c.faults, "\n")
}

// table plays one run of a test that records, and gives what it reports.
func table(t *testing.T, path string, write bool, record func(*backendtest.Table)) string {
	t.Helper()
	*update = write
	defer func() { *update = false }()
	c := &cleaner{fakeT: fakeT{TB: t}}
	record(backendtest.OpenTable(c, path, "codex", []string{"a", "b", "c", "long"}))
	return c.end()
}

func TestTable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "testdata", "table.json")
	whole := func(tb *backendtest.Table) {
		tb.Record("a", "", false)
		tb.Record("b", "it has no b", false)
		tb.But("c", "not on a sunday", false)
		tb.Record("long", "", true)
	}
	if got := table(t, path, false, whole); !strings.Contains(got, `a is "ok", was ""`) {
		t.Errorf("without a file: %s", got)
	}
	if got := table(t, path, true, whole); got != "" {
		t.Errorf("-update: %s", got)
	}
	if got := table(t, path, false, whole); got != "" {
		t.Errorf("the same again: %s", got)
	}
	for name, test := range map[string]struct {
		record func(*backendtest.Table)
		want   string
	}{
		"a part":           {func(tb *backendtest.Table) { tb.Record("b", "it has no b", false) }, ""},
		"another reason":   {func(tb *backendtest.Table) { tb.Record("b", "it is tired", false) }, `b is "no: it is tired", was "no: it has no b"`},
		"a reason no more": {func(tb *backendtest.Table) { tb.Record("b", "", false) }, `b is "ok", was "no: it has no b"`},
		"can no more":      {func(tb *backendtest.Table) { tb.Record("a", "broken", false) }, `a is "no: broken", was "ok"`},
		"failed":           {func(tb *backendtest.Table) { tb.Record("a", "", false); tb.Fail("a") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := table(t, path, false, test.record)
			if (test.want == "") != (got == "") || !strings.Contains(got, test.want) {
				t.Errorf("reported %q, want %q", got, test.want)
			}
		})
	}
}

func TestTableKeepsWhatWasNotTried(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table.json")
	if err := os.WriteFile(path, []byte(`{"agent":"codex","results":{"a":"ok","b":"ok","gone":"ok"},"long":{"long":"ok"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := table(t, path, false, func(*backendtest.Table) {}); !strings.Contains(got, "gone is nothing that is tried") {
		t.Errorf("a name that is none: %q", got)
	}
	if got := table(t, path, true, func(tb *backendtest.Table) { tb.Record("c", "", false); tb.Record("b", "", false); tb.Fail("b") }); got != "" {
		t.Error(got)
	}
	got, err := backendtest.ReadResults(path)
	if err != nil {
		t.Fatal(err)
	}
	want := backendtest.Results{
		Agent:   "codex",
		Results: map[string]string{"a": "ok", "c": "ok"}, // b failed, and is claimed no longer
		Long:    map[string]string{"long": "ok"},         // was not tried
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
