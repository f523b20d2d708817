//go:build linux

package faults_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"innerd/events"
	"innerd/test/ledger"
	"innerd/test/modelstub"
	"innerd/test/server"
)

// betweenName is what this program is started as where it stands between a
// server and the real Claude Code, which betweenReal beside it leads to. What
// its model says between << and >> the one between does, when it comes by.
const (
	betweenName = "claude-between"
	betweenReal = "claude-real"
)

func init() {
	if filepath.Base(os.Args[0]) == betweenName {
		between()
	}
}

// between is the whole life of the one between.
func between() {
	real := filepath.Join(filepath.Dir(os.Args[0]), betweenReal)
	if len(os.Args) > 1 && os.Args[1] == "--version" {
		_ = syscall.Exec(real, os.Args, os.Environ())
	}
	// So that it can be closed while it is read.
	_ = syscall.SetNonblock(0, true)
	b := &inBetween{stdin: os.NewFile(0, "stdin")}
	b.cmd = exec.Command(real, os.Args[1:]...)
	b.cmd.Stderr = os.Stderr
	in, err := b.cmd.StdinPipe()
	var out io.ReadCloser
	if err == nil {
		out, err = b.cmd.StdoutPipe()
	}
	if err == nil {
		err = b.cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(97)
	}
	go func() { // ends with either
		_, _ = io.Copy(in, b.stdin)
		if !b.deaf.Load() {
			_ = in.Close()
		}
	}()
	for br := bufio.NewReader(out); ; {
		line, err := br.ReadBytes('\n')
		_, _ = os.Stdout.Write(b.passed(line)) // nobody listens, perhaps: that is the fault
		b.obey(line)
		if err != nil {
			break
		}
	}
	_ = b.cmd.Wait() // its state says it all
	os.Exit(max(b.cmd.ProcessState.ExitCode(), 0))
}

type inBetween struct {
	cmd   *exec.Cmd
	stdin *os.File
	deaf  atomic.Bool
	seen  sync.Map // orders that were obeyed
}

// oddWords is what stands in the place of a word of the model's, in a JSON string.
var oddWords = map[string]string{"ODD-BYTES": "odd\xff\xfe\xed\xa0\x80bytes", "ODD-NUL": `odd\u0000nul`}

func (b *inBetween) passed(line []byte) []byte {
	for word, odd := range oddWords {
		line = bytes.ReplaceAll(line, []byte(word), []byte(odd))
	}
	return line
}

// obey does what a line says for the first time.
func (b *inBetween) obey(line []byte) {
	_, rest, ok := bytes.Cut(line, []byte("<<"))
	order, _, whole := bytes.Cut(rest, []byte(">>"))
	if _, again := b.seen.LoadOrStore(string(order), true); !ok || !whole || again {
		return
	}
	for one := range strings.SplitSeq(string(order), ";") {
		f := strings.Fields(one)
		n := 0
		if len(f) > 1 {
			n, _ = strconv.Atoi(f[1])
		}
		switch f[0] {
		case "exit":
			_ = b.cmd.Process.Kill()
			os.Exit(n)
		case "kill":
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		case "stop":
			_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		case "hang":
			signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
			select {}
		case "stdout":
			_ = os.Stdout.Close()
		case "stdin":
			b.deaf.Store(true)
			_ = b.stdin.Close()
		case "stderr":
			noise(os.Stderr, n<<20)
		case "long":
			noise(os.Stdout, n<<20)
			_, _ = os.Stdout.WriteString("\n")
		case "half":
			_, _ = os.Stdout.WriteString(`{"type":"assistant","message":{"content":[{"type":"text","text":"` + strings.Repeat("y", 500))
		case "utf8":
			_, _ = os.Stdout.WriteString("\xff\xfe\x80 no text at all \xc3(\n")
		case "nul":
			_, _ = os.Stdout.WriteString("\x00\x00 nothing \x00\n")
		case "rune": // its bytes are those from 199 on
			_, _ = os.Stdout.WriteString(strings.Repeat("x", 199) + strings.Repeat("\u20ac", 20) + "\n")
		}
	}
}

// noise writes n bytes without a line end.
func noise(w io.Writer, n int) {
	piece := bytes.Repeat([]byte("noise "), 1<<13)
	for ; n > 0; n -= len(piece) {
		if _, err := w.Write(piece[:min(n, len(piece))]); err != nil {
			return
		}
	}
}

// throughBetween has the server find the real Claude Code behind what stands
// between them.
func (r *rig) throughBetween() {
	r.T.Helper()
	dir := r.T.TempDir()
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, filepath.Join(dir, betweenName))
	}
	_, path, _ := strings.Cut(claudeCLI.path(r.T), "=")
	if err == nil {
		err = os.Symlink(path, filepath.Join(dir, betweenReal))
	}
	if err != nil {
		r.T.Fatal(err)
	}
	r.Env = append(r.Env, "INNERD_CLAUDE_CODE_PATH="+filepath.Join(dir, betweenName))
}

// realFaults are those of agentFaults with the real Claude Code: what its own
// process can't be brought to do is done by the one between.
func realFaults() []agentFault {
	crashed := events.ErrBackendCrashed
	return []agentFault{
		{name: "kill -9", orders: "kill", want: crashed, signal: "killed"},
		{name: "out of memory, exit 137", orders: "exit 137", want: crashed, exit: 137},
		{name: "exit 0 in a turn", orders: "exit 0", want: crashed},
		{name: "half a line, then exit", orders: "half; exit 3", want: crashed, exit: 3},
		{name: "stdout closed", orders: "stdout; hang", want: crashed, signal: "killed", check: says("closed its stdout")},
		{name: "stdin closed", orders: "stdin", want: crashed, signal: "terminated", check: says("closed its stdin")},
		{name: "stopped, canceled", orders: "stop", cancel: true, want: events.ErrCanceled},
		{name: "deaf, canceled", orders: "hang", cancel: true, want: events.ErrCanceled},
		{name: "stderr flooded", orders: fmt.Sprintf("stderr %d", pick(20, 100))},
		{name: "a line of 65 MiB", orders: "long 65", check: notices("it begins with", "too long")},
		{name: "no UTF-8", orders: "utf8", check: notices("no text at all")},
		{name: "NUL", orders: "nul", check: notices("\x00", `\x00`)},
		{name: "a character across byte 200", orders: "rune", check: notices("xxxxxxxx")},
	}
}

// The same with the real Claude Code, in one conversation: the run after a
// fault is the one before the next.
func TestRealAgentFaults(t *testing.T) {
	t.Parallel()
	began := time.Now()
	r := newRig(t)
	r.throughBetween()
	r.start()
	stub := modelstub.New()
	t.Cleanup(stub.Close)
	a := r.actor(t, &claudeCLI, stub)
	a.fine(t, "hello")
	var sum ledger.Result
	faults := realFaults()
	for i, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			a.r = r.For(t)
			sum.Add(f.hitReal(t, a, i))
		})
	}
	t.Run("a large message, odd bytes in it", func(t *testing.T) {
		a.r = r.For(t)
		size := pick(2, 20) << 20
		p := a.does(t, nil, answers(modelstub.Say(modelstub.Text("ODD-BYTES, ODD-NUL. ").Chunk(100), modelstub.Huge(size)), ""))
		b := r.book(t, p)
		sum.Add(b.closed(t, ""))
		whole(size)(t, p)
	})
	a.fine(t, "again")
	result(t, fmt.Sprintf("%d faults of an agent's process (Claude Code, by what stands between it and the server)", len(faults)), sum, time.Since(began))
}

func (f agentFault) hitReal(t *testing.T, a *actor, number int) ledger.Result {
	gate := modelstub.NewGate()
	defer gate.Release()
	// All of an order comes in one piece; each is another, for it is obeyed once.
	half := fmt.Sprintf("half <<%s; number %d>>", f.orders, number)
	text := modelstub.Text(half).Chunk(len(half)).Hold(gate).Add(" rest")
	said := act{block: func(modelstub.Request) modelstub.Block { return text }}
	p := a.does(t, nil, said, look("x"))
	b := a.r.book(t, p)
	server.Until[events.MessageDelta](p, 1)
	switch {
	case f.cancel:
		p.Cancel()
	case f.orders == "stdin": // it lives on, and is not heard when it asks
		gate.Release()
	case f.want == "": // it lives on, and asks its host
		gate.Release()
		a.r.Result(server.Until[events.ToolRequest](p, 1).ToolCallID, map[string]any{"result": "found"})
	}
	res := b.closed(t, f.want)
	f.verdict(t, a.v.backend, p)
	return res
}
