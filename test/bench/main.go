// Command bench measures innerd against what the machine can do: the release
// binary as a process of its own, on loopback, beside a plain handler in
// another process that writes the same bytes. It prints a table in Markdown;
// docs/performance.md says how to read it.
//
//	go run -tags nomsgpack ./test/bench -binary dist/innerd
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// bench is one measurement of everything, or of a part.
type bench struct {
	binary string
	dir    string // of all states and files, removed at the end
	quick  bool   // fewer and shorter rounds
	cold   int    // pairs of cold turns
	table  table
}

// figures are what is measured, in the order of the table.
var figures = []figure{
	{"flood-1", flood(1, 1_000_000, 0.6)},
	{"flood-16", flood(16, 300_000, 0.8)},
	{"flood-128", flood(128, 60_000, 0.8)},
	{"flood-1000", flood(1000, 12_000, 0.8)},
	{"library", (*bench).library},
	{"latency", (*bench).latency},
	{"first", (*bench).first},
	{"body", (*bench).body},
	{"start", (*bench).start},
	{"idle", (*bench).idle},
	{"million", (*bench).million},
	{"stuck", (*bench).stuck},
	{"followers", (*bench).followers},
}

// Each agent has its figures: claude-code-warm, claude-code-cold, codex-open, claude-code-cold-tool, ….
func init() {
	for _, m := range measuredAgents {
		figures = append(figures, figure{m.word + "-warm", warm(m)}, figure{m.word + "-cold", cold(m)}, figure{m.word + "-open", open(m)})
		if !m.shared {
			figures = append(figures, figure{m.word + "-cold-tool", cold(withTool(m))})
		}
	}
}

type figure struct {
	name string
	run  func(*bench, context.Context) error
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := errors.New("no such role")
	switch {
	case len(os.Args) > 2 && os.Args[1] == "role":
		if role := roles[os.Args[2]]; role != nil {
			err = role(ctx, os.Args[3:])
		}
	default:
		err = orchestrate(ctx, os.Args[1:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// orchestrate measures what is asked for and prints the table.
func orchestrate(ctx context.Context, args []string) error {
	b := &bench{}
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.StringVar(&b.binary, "binary", "dist/innerd", "the release binary")
	fs.BoolVar(&b.quick, "quick", false, "fewer and shorter rounds")
	fs.IntVar(&b.cold, "cold", 50, "pairs of cold turns, which differ by tens of milliseconds")
	only := fs.String("only", "", "figures to measure, separated by commas; "+figureNames())
	out := fs.String("out", "", "file for the table, beside the terminal")
	state := fs.String("dir", "", "where states are kept while it runs; the system's temporary folder")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	if b.cold < 1 {
		return fmt.Errorf("-cold %d: it takes a pair at least", b.cold)
	}
	wanted, err := chosen(*only)
	if err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp(*state, "innerd-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir) //nolint:errcheck // a temporary folder

	var failed []error
	for _, f := range figures {
		if !wanted(f.name) || ctx.Err() != nil {
			continue
		}
		fmt.Fprintf(os.Stderr, "%s …\n", f.name)
		if err := f.run(b, ctx); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", f.name, err))
		}
	}
	return errors.Join(append(failed, b.print(*out))...)
}

func (b *bench) print(file string) error {
	text := b.table.markdown()
	if _, err := io.WriteString(os.Stdout, text); err != nil || file == "" {
		return err
	}
	return os.WriteFile(file, []byte(text), 0o644)
}

func figureNames() string {
	var names []string
	for _, f := range figures {
		names = append(names, f.name)
	}
	return strings.Join(names, ", ")
}

// chosen reads -only; a name chooses also what begins with it and a dash.
func chosen(list string) (func(string) bool, error) {
	if list == "" {
		return func(string) bool { return true }, nil
	}
	names := strings.Split(list, ",")
	wanted := func(figure string) bool {
		for _, n := range names {
			if figure == n || strings.HasPrefix(figure, n+"-") {
				return true
			}
		}
		return false
	}
	for _, f := range figures {
		if wanted(f.name) {
			return wanted, nil
		}
	}
	return nil, fmt.Errorf("-only %s: the figures are %s", list, figureNames())
}

// rounds is how often something is measured.
func (b *bench) rounds(n int) int {
	if b.quick {
		return min(n, 3)
	}
	return n
}
