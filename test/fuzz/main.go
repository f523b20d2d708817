// Fuzz runs every fuzz test of the module for a time each, some at once, and
// says what each came to:
//
//	go run ./test/fuzz -time 10m -jobs 2
//
// One that fails does not keep the others from their turn; the input that it
// failed with stands in its package's testdata/fuzz. With INNERD_REPORT set it leaves a
// report there.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"innerd/test/report"
)

type target struct{ pkg, name string }

// outcome is what a target came to.
type outcome struct {
	target
	execs  string // how many inputs were tried
	fresh  string // of them new in what they reach
	took   time.Duration
	failed bool
}

func main() {
	each := flag.Duration("time", 10*time.Minute, "of each target")
	jobs := flag.Int("jobs", 1, "targets at once, each with one worker")
	tags := flag.String("tags", "nomsgpack", "build tags")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	f := fuzzer{each: *each, tags: *tags}
	all, err := targets()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fuzz:", err)
		os.Exit(1)
	}
	began := time.Now()
	outcomes := f.run(ctx, all, max(1, *jobs))
	text, failed := table(outcomes, time.Since(began), *jobs)
	fmt.Println(text)
	if dir := os.Getenv(report.DirEnv); dir != "" && !failed {
		if err := report.Save(dir, "fuzz", fmt.Sprintf("make fuzz FUZZTIME=%v FUZZJOBS=%d", *each, *jobs), text); err != nil {
			fmt.Fprintln(os.Stderr, "fuzz:", err)
			os.Exit(1)
		}
	}
	if failed || ctx.Err() != nil {
		os.Exit(1)
	}
}

type fuzzer struct {
	each time.Duration
	tags string
	out  sync.Mutex // of lines on the terminal
}

var declared = regexp.MustCompile(`(?m)^func (Fuzz\w*)\(\w+ \*testing\.F\)`)

// targets lists the fuzz tests of the module whose root is the working folder.
// Its own nested modules have none. They are read from the sources: go test -list
// would build the tests of every package.
func targets() (all []target, err error) {
	err = filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range declared.FindAllSubmatch(text, -1) {
			all = append(all, target{"./" + filepath.ToSlash(filepath.Dir(path)), string(m[1])})
		}
		return err
	})
	return all, err
}

// run has each target its time, some at once, and gives them in their order.
func (f *fuzzer) run(ctx context.Context, targets []target, jobs int) []outcome {
	all := make([]outcome, len(targets))
	next := make(chan int)
	var wg sync.WaitGroup
	for range jobs {
		wg.Go(func() { // ends with next
			for i := range next {
				all[i] = f.one(ctx, targets[i])
			}
		})
	}
	for i := range targets {
		next <- i
	}
	close(next)
	wg.Wait()
	return all
}

// one runs one target.
func (f *fuzzer) one(ctx context.Context, t target) outcome {
	o := outcome{target: t, execs: "0", fresh: "0"}
	began := time.Now()
	cmd := exec.CommandContext(ctx, "go", "test", "-tags", f.tags, "-run", "^$", "-fuzz", "^"+t.name+"$", "-fuzztime", f.each.String(), "-parallel", "1", t.pkg)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it ends its worker then
	cmd.WaitDelay = time.Minute
	out, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	var wg sync.WaitGroup
	wg.Go(func() { f.read(out, &o) }) // ends with the pipe
	err := cmd.Run()
	_ = w.Close()
	wg.Wait()
	o.took, o.failed = time.Since(began), err != nil
	return o
}

var progress = regexp.MustCompile(`^fuzz: elapsed: .*execs: (\d+) .*new interesting: (\d+)`)

// read keeps the last figures that a target gives, and shows what it says
// beside them.
func (f *fuzzer) read(r io.Reader, o *outcome) {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if m := progress.FindStringSubmatch(line); m != nil {
			o.execs, o.fresh = m[1], m[2]
		} else if line != "" && !strings.HasPrefix(line, "fuzz: elapsed:") {
			f.out.Lock()
			fmt.Printf("%s %s: %s\n", o.pkg, o.name, strings.TrimRight(line, "\n"))
			f.out.Unlock()
		}
		if err != nil {
			return
		}
	}
}

// table is what all came to.
func table(all []outcome, took time.Duration, jobs int) (text string, failed bool) {
	var b strings.Builder
	fmt.Fprintf(&b, "| fuzz test | inputs | reached something new | time | |\n|---|---:|---:|---:|---|\n")
	for _, o := range all {
		verdict := "ok"
		if o.failed {
			verdict, failed = "FAILED", true
		}
		fmt.Fprintf(&b, "| %s.%s | %s | %s | %v | %s |\n", strings.TrimPrefix(o.pkg, "./"), o.name, o.execs, o.fresh, o.took.Round(time.Second), verdict)
	}
	fmt.Fprintf(&b, "%d fuzz tests, %d at once, %v", len(all), jobs, took.Round(time.Second))
	return b.String(), failed
}
