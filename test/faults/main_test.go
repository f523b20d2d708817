//go:build linux

package faults_test

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"innerd/test/ledger"
	"innerd/test/report"
	"innerd/test/server"
)

// innerd is the innerd under test, as it is released.
var innerd string

func TestMain(m *testing.M) {
	innerd = os.Getenv(insideEnv)
	server.AtOnce(3)
	code := server.Main(m, &innerd)
	if long() && os.Getenv(insideEnv) == "" {
		fmt.Println(rows.table())
	}
	os.Exit(code)
}

// long reports whether the long forms of tests are asked for.
func long() bool { return server.Long() }

// pick gives the size of a test's short or of its long form.
func pick[T any](short, longer T) T {
	if long() {
		return longer
	}
	return short
}

// rows are the results of this run of the tests.
var rows results

type results struct {
	mu  sync.Mutex
	all []string
}

func (r *results) table() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return ledger.Head + "\n" + strings.Join(r.all, "\n")
}

// result fails the test where a comparison found something, and puts its row
// into the table.
func result(t testing.TB, fault string, res ledger.Result, took time.Duration) {
	t.Helper()
	for i, f := range res.Faults {
		if i < 20 {
			t.Error(f)
		}
	}
	if !res.OK() {
		t.Errorf("%s: %v", fault, res)
	}
	if res.Expected == 0 {
		t.Errorf("%s: nothing was compared", fault)
	}
	t.Logf("%s: %v in %.1f s", fault, res, took.Seconds())
	rows.add(t, res.Row(fault, took))
}

// add puts a row into the table, and the table into the report.
func (r *results) add(t testing.TB, row string) {
	r.mu.Lock()
	r.all = append(r.all, row)
	r.mu.Unlock()
	if os.Getenv(insideEnv) != "" {
		fmt.Println(rowMark + row)
		return
	}
	report.Write(t, "faults", "make faults", r.table())
}
