package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// row is one figure of the table.
type row struct {
	what     string
	measured string
	limit    string // what the machine does without innerd, in the same run
	ratio    string
	goal     string
	ok       bool
	free     bool // for orientation: there is no goal
}

type table struct{ rows []row }

func (t *table) add(r row) { t.rows = append(t.rows, r) }

func (t *table) markdown() string {
	var sb strings.Builder
	sb.WriteString("| Figure | innerd | Limit, same run | Ratio | Goal | |\n|---|---|---|---|---|---|\n")
	for _, r := range t.rows {
		verdict := "missed"
		switch {
		case r.free:
			verdict = ""
		case r.ok:
			verdict = "ok"
		}
		fmt.Fprintf(&sb, "| %s | %s | %s | %s | %s | %s |\n", r.what, dash(r.measured), dash(r.limit), dash(r.ratio), dash(r.goal), verdict)
	}
	return sb.String()
}

func dash(s string) string { return cmp.Or(s, "–") }

// median of values, which it sorts.
func median[T cmp.Ordered](values []T) T { return quantile(values, 0.5) }

// quantile of values, which it sorts.
func quantile[T cmp.Ordered](values []T, q float64) T {
	var zero T
	if len(values) == 0 {
		return zero
	}
	slices.Sort(values)
	return values[min(int(q*float64(len(values))), len(values)-1)]
}

func millions(perSecond float64) string { return fmt.Sprintf("%.2f M/s", perSecond/1e6) }

func ms(d time.Duration) string { return fmt.Sprintf("%.3f ms", d.Seconds()*1e3) }

func mb(bytes int64) string { return fmt.Sprintf("%.1f MB", float64(bytes)/1e6) }
