// Package promql reads deploy/prometheus/rules.yaml and the queries of
// deploy/grafana/innerd.json as Prometheus itself does, and looks for each
// metric that they name, with its labels, among those of docs/observability.md,
// which another test keeps true.
package promql

import (
	"encoding/json"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

const (
	rules     = "../../deploy/prometheus/rules.yaml"
	dashboard = "../../deploy/grafana/innerd.json"
	documents = "../../docs/observability.md"
)

var row = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (gauge|counter|histogram) \\| (.*?) \\|")

// metrics gives the labels of each metric, from the docs.
func metrics(t *testing.T) map[string]map[string]bool {
	raw, err := os.ReadFile(documents)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string]bool{}
	for _, m := range row.FindAllStringSubmatch(string(raw), -1) {
		of := map[string]bool{"instance": true, "job": true, "__name__": true}
		for _, l := range regexp.MustCompile("`([a-z_]+)`:").FindAllStringSubmatch(m[3], -1) {
			of[l[1]] = true
		}
		names := []string{m[1]}
		if m[2] == "histogram" {
			of["le"] = true
			names = []string{m[1] + "_bucket", m[1] + "_sum", m[1] + "_count"}
		}
		for _, name := range names {
			out[name] = of
		}
	}
	if len(out) < 40 {
		t.Fatalf("only %d metrics found in %s", len(out), documents)
	}
	return out
}

// check reads an expression and looks for what it names.
func check(t *testing.T, known map[string]map[string]bool, where, text string) {
	t.Helper()
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		t.Errorf("%s: %v", where, err)
		return
	}
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		v, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		of, there := known[v.Name]
		if !there {
			t.Errorf("%s: %s is no metric of innerd", where, v.Name)
			return nil
		}
		for _, m := range v.LabelMatchers {
			if !of[m.Name] {
				t.Errorf("%s: %s has no label %s", where, v.Name, m.Name)
			}
		}
		return nil
	})
}

func TestRules(t *testing.T) {
	groups, errs := rulefmt.ParseFile(rules, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	for _, err := range errs {
		t.Error(err)
	}
	if groups == nil {
		t.FailNow()
	}
	known, n := metrics(t), 0
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			n++
			check(t, known, r.Alert, r.Expr)
			if r.Annotations["summary"] == "" || r.Annotations["description"] == "" || r.Labels["severity"] == "" {
				t.Errorf("%s says too little", r.Alert)
			}
		}
	}
	if n < 10 {
		t.Errorf("only %d rules", n)
	}
}

// A breaker is open for ten seconds at a time, and half-open until a run tries
// again: an alert that waits for longer must see both.
func TestAlertsSeeABreakerThatIsHalfOpen(t *testing.T) {
	groups, errs := rulefmt.ParseFile(rules, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	n := 0
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			expr, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range parser.ExtractSelectors(expr) {
				var name, open, halfOpen bool
				for _, m := range s {
					name = name || m.Name == "__name__" && m.Value == "innerd_breaker_state"
					open = open || m.Name == "state" && m.Matches("open")
					halfOpen = halfOpen || m.Name == "state" && m.Matches("half-open")
				}
				if name {
					n++
				}
				if name && r.For > 0 && open != halfOpen {
					t.Errorf("%s sees one of open and half-open: %s", r.Alert, r.Expr)
				}
			}
		}
	}
	if n == 0 {
		t.Error("no rule looks at innerd_breaker_state")
	}
}

func TestDashboard(t *testing.T) {
	raw, err := os.ReadFile(dashboard)
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
	known, n := metrics(t), 0
	fill := strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*", "$backend", ".*")
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			n++
			check(t, known, p.Title, fill.Replace(target.Expr))
		}
	}
	if n < 20 {
		t.Errorf("only %d queries", n)
	}
}
