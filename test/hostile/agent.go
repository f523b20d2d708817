//go:build linux

package hostile

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// Main is the whole life of an agent, where this program was started under the
// name of one; else it returns at once. Call it before anything else.
func Main() {
	name := filepath.Base(os.Args[0])
	speak := protocols[name]
	if speak == nil {
		return
	}
	if len(os.Args) > 1 && os.Args[1] == "--version" {
		fmt.Println(versions[name])
		os.Exit(0)
	}
	// So that it can be closed while it is read.
	_ = syscall.SetNonblock(0, true)
	stdin := os.NewFile(0, "stdin")
	a := &agent{stdin: stdin, in: bufio.NewReaderSize(stdin, 1<<16), waiting: map[string]chan string{}}
	a.tongue = speak(a)
	for a.tongue.take() {
	}
	if a.deaf.Load() {
		select {}
	}
	os.Exit(0)
}

var (
	protocols = map[string]func(*agent) tongue{"claude": newClaude, "codex": newCodex, "copilot": newCopilot}
	versions  = map[string]string{"claude": claudeVersion + " (Claude Code)", "codex": "codex-cli " + codexVersion}
)

// Install makes the agents' programs out of this test's own, and gives the
// variables that a server finds them by.
func Install(t testing.TB) []string {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// What innerd looks for beside a copilot, so that it need not unpack itself.
	pkg := filepath.Join(dir, "pkg-cache", "pkg", "linux-x64", copilotVersion)
	if err := os.MkdirAll(pkg, 0o755); err != nil {
		t.Fatal(err)
	}
	for path, data := range map[string]string{filepath.Join(pkg, "app.js"): "", filepath.Join(dir, "package.json"): `{"version":"` + copilotVersion + `"}`} {
		if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var env []string
	for name, variable := range map[string]string{"claude": "CLAUDE_CODE", "codex": "CODEX", "copilot": "COPILOT"} {
		path := filepath.Join(dir, name)
		if err := os.Symlink(self, path); err != nil {
			t.Fatal(err)
		}
		env = append(env, "INNERD_"+variable+"_PATH="+path)
	}
	return env
}

// tongue is one CLI's way to speak.
type tongue interface {
	take() bool               // reads and handles one message; false: there are no more
	frame(body []byte) []byte // as it goes out
	say(t *turn, text string) // JSON text: what stands between the quotes
	call(t *turn, tool, id, arg string)
	mcp(t *turn) (url, token string)
	done(t *turn)
}

// agent is what all three have in common.
type agent struct {
	tongue
	stdin *os.File
	in    *bufio.Reader
	deaf  atomic.Bool // stdin was closed, and it lives on

	out     sync.Mutex // held while a frame is written
	mu      sync.Mutex
	waiting map[string]chan string // for answers, by our id of the request
	asked   int
}

// turn is one turn of a conversation.
type turn struct {
	session, id string
	n           int    // of messages that were closed
	text        []byte // all that was said in the one that is open, as JSON text
}

// message is the id of the one that is open.
func (t *turn) message() string { return t.id + "-m" + strconv.Itoa(t.n) }

// next closes it and gives all of it.
func (t *turn) next() (id string, text []byte) {
	id, text = t.message(), t.text
	t.n, t.text = t.n+1, nil
	return id, text
}

// write puts a message on stdout, whole.
func (a *agent) write(format string, args ...any) {
	a.raw(a.frame(fmt.Appendf(nil, format, args...)))
}

func (a *agent) raw(b []byte) {
	a.out.Lock()
	defer a.out.Unlock()
	_, _ = os.Stdout.Write(b) // nobody listens, perhaps: that is the fault
}

// ask makes a request with an id of ours and waits for its answer.
func (a *agent) ask(send func(id string)) string {
	ch := make(chan string, 1)
	a.mu.Lock()
	a.asked++
	id := strconv.Itoa(1000 + a.asked)
	a.waiting[id] = ch
	a.mu.Unlock()
	send(id)
	return <-ch
}

// answered gives an answer to who waits for it; false: nobody does.
func (a *agent) answered(id, result string) bool {
	a.mu.Lock()
	ch := a.waiting[id]
	delete(a.waiting, id)
	a.mu.Unlock()
	if ch != nil {
		ch <- result
	}
	return ch != nil
}

// orders are those of a prompt.
func orders(prompt string) []string {
	_, last, ok := cutLast(prompt, "<<")
	if !ok {
		return nil
	}
	block, _, _ := strings.Cut(last, ">>")
	return strings.Split(block, ";")
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return "", s, false
	}
	return s[:i], s[i+len(sep):], true
}

// play is a turn from its prompt to its end. It runs beside the reading.
func (a *agent) play(t *turn, prompt string) {
	for _, order := range orders(prompt) {
		if f := strings.Fields(order); len(f) > 0 && !a.obey(t, f[0], f[1:]) {
			return
		}
	}
	a.done(t)
}

// obey does one thing; false: the turn goes no further.
func (a *agent) obey(t *turn, word string, args []string) bool {
	arg := func(i int) string {
		if i < len(args) {
			return args[i]
		}
		return ""
	}
	n, _ := strconv.Atoi(arg(0)) // what is no number is none
	switch word {
	case "say":
		a.speak(t, quoted(strings.Join(args, " ")+" "))
	case "text":
		a.speak(t, oddText[arg(0)])
	case "big":
		a.speak(t, strings.Repeat("0123456789abcdef", n<<16))
	case "call":
		a.call(t, arg(0), arg(1), arg(2))
	case "mcp":
		url, token := a.mcp(t)
		a.speak(t, quoted("got "+callMCP(url, token, arg(0), arg(1))+". "))
	case "print":
		a.print(arg(0))
	case "odd":
		n, _ = strconv.Atoi(arg(1))
		seed, _ := strconv.ParseUint(arg(2), 10, 64)
		a.oddMessages(t, arg(0), n, seed)
	case "stderr":
		flood(os.Stderr, n<<20)
	case "close":
		a.close(arg(0))
	case "done":
		a.done(t)
		return false
	default:
		a.fail(word, n)
		return false
	}
	return true
}

// fail is how it ends, or does not.
func (a *agent) fail(word string, n int) {
	switch word {
	case "exit":
		os.Exit(n)
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "stop":
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	case "hang":
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
		a.out.Lock() // for ever: it answers nothing
	default:
		fmt.Fprintln(os.Stderr, "hostile: no such order:", word)
		os.Exit(96)
	}
	select {}
}

func (a *agent) close(what string) {
	if what == "stdin" {
		a.deaf.Store(true)
		_ = a.stdin.Close()
		return
	}
	a.out.Lock()
	defer a.out.Unlock()
	_ = os.Stdout.Close()
}

func (a *agent) speak(t *turn, text string) {
	t.text = append(t.text, text...)
	a.say(t, text)
}

// oddText stands between the quotes of a JSON string.
var oddText = map[string]string{
	"utf8": "odd\xff\xfe\xed\xa0\x80bytes ",
	"nul":  `odd\u0000nul `,
}

const longLine = 65 << 20

// print writes what is no message.
func (a *agent) print(what string) {
	switch what {
	case "utf8":
		a.raw([]byte("\xff\xfe\x80 no text at all \xc3(\n"))
	case "nul":
		a.raw([]byte("\x00\x00 nothing \x00\n"))
	case "rune": // its bytes are those from 199 on
		a.raw([]byte(strings.Repeat("x", 199) + strings.Repeat("\u20ac", 20) + "\n"))
	case "long":
		a.out.Lock()
		defer a.out.Unlock()
		flood(os.Stdout, longLine)
		_, _ = os.Stdout.WriteString("\n")
	case "half":
		whole := a.frame([]byte(`{"type":"assistant","jsonrpc":"2.0","method":"session.event","params":{"threadId":"` + strings.Repeat("y", 500)))
		a.raw(bytes.TrimSuffix(whole, []byte("\n")))
	}
}

// flood writes n bytes without a line end.
func flood(w io.Writer, n int) {
	piece := bytes.Repeat([]byte("noise "), 1<<13)
	for ; n > 0; n -= len(piece) {
		if _, err := w.Write(piece[:min(n, len(piece))]); err != nil {
			return
		}
	}
}

// quoted is a text as it stands between the quotes of a JSON string.
func quoted(s string) string {
	b, _ := json.Marshal(s) // a string always encodes
	return string(b[1 : len(b)-1])
}

// firstText finds the first text of a result, wherever it stands.
func firstText(v any, keys ...string) string {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range keys {
			if s, ok := v[k].(string); ok {
				return s
			}
		}
		for _, inner := range v {
			if s := firstText(inner, keys...); s != "" {
				return s
			}
		}
	case []any:
		for _, inner := range v {
			if s := firstText(inner, keys...); s != "" {
				return s
			}
		}
	}
	return ""
}

func textIn(raw json.RawMessage, keys ...string) string {
	var v any
	_ = json.Unmarshal(raw, &v) // what is no JSON has none
	return firstText(v, keys...)
}
