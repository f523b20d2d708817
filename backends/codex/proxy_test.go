package codex_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"

	"innerd/backends/backendtest"
)

// proxy is the real codex with noise on its stdout: its process stands
// between the backend and the real one. The noise comes after the first
// message; what is deaf is so from the first call of a tool on.
func proxy() int {
	cmd := exec.Command(os.Getenv("TEST_REAL"), os.Args[1:]...)
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		fmt.Fprintln(os.Stderr, "proxy:", err)
		return 99
	}
	rec := openRecord()
	var deaf sync.Mutex // held while nothing is read
	go func() {         // ends with the process
		defer in.Close() //nolint:errcheck // the end
		buf := make([]byte, 64<<10)
		for {
			deaf.Lock()
			n, err := os.Stdin.Read(buf)
			deaf.Unlock()
			if n > 0 {
				rec.write("in", buf[:n])
				if _, err := in.Write(buf[:n]); err != nil {
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	pass(out, rec, backendtest.Noise(os.Getenv("TEST_NOISE")), &deaf)
	if err := cmd.Wait(); err != nil {
		return 1
	}
	return 0
}

func pass(out io.Reader, rec *record, noise backendtest.Noise, deaf *sync.Mutex) {
	r := bufio.NewReaderSize(out, 1<<16)
	done := false
	for {
		line, err := r.ReadBytes('\n')
		if len(line) > 0 {
			rec.write("out", line)
			_, _ = os.Stdout.Write(line)
		}
		switch {
		case done:
		case noise == backendtest.NoiseDeaf && bytes.Contains(line, []byte(`"method":"item/tool/call"`)):
			done = true
			// The reader of stdin may be in a read; what it takes is a piece of
			// 64 KiB, and the result is much longer.
			locked := make(chan struct{})
			go func() { deaf.Lock(); close(locked) }()
			for range 4 << 10 {
				fmt.Printf("{\"method\":\"noise\",\"params\":{\"pad\":%q}}\n", strings.Repeat("n", 1000))
			}
			<-locked
			deaf.Unlock()
		case bytes.Contains(line, []byte(`"text":"before"`)) && bytes.Contains(line, []byte(`"method":"item/completed"`)):
			done = true
			makeNoise(noise)
		}
		if err != nil {
			return
		}
	}
}

func makeNoise(n backendtest.Noise) {
	switch n {
	case backendtest.NoiseHugeLine:
		fmt.Println(strings.Repeat("x", 64<<20+1))
	case backendtest.NoiseNotJSON:
		fmt.Printf("\nwarning: this is no JSON\n%sü and on\n\xff\xfe\xfd\n[1]\nnull\n", strings.Repeat("a", 199))
	case backendtest.NoiseUnknownEvent:
		fmt.Println(`{"method":"item/tomorrow","params":{"threadId":"nobody","news":{"a":[1,{"b":null}]}}}`)
		fmt.Println(`{"method":"turn/plan/updated","params":{"threadId":7,"plan":"odd"}}`)
		fmt.Println(`{"method":"tomorrow"}`)
		fmt.Println(`{"method":"tomorrow/asks","id":"a-word","params":{"threadId":"nobody"}}`)
		fmt.Println(`{"id":999999,"result":{}}`)
	}
}

// record keeps what goes to and fro, a line of JSON for each line of it.
type record struct {
	mu   sync.Mutex
	f    *os.File // nil: nothing is kept
	half bytes.Buffer
}

func openRecord() *record {
	path := os.Getenv("TEST_RECORD")
	if path == "" {
		return &record{}
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
	}
	return &record{f: f}
}

func (r *record) write(dir string, b []byte) {
	if r.f == nil || bytes.Contains(b, []byte("supportedReasoningEfforts")) { // the catalog of models is long
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if dir == "in" { // in pieces
		r.half.Write(b)
		for {
			i := bytes.IndexByte(r.half.Bytes(), '\n')
			if i < 0 {
				return
			}
			fmt.Fprintf(r.f, "{\"dir\":\"in\",\"line\":%s}\n", bytes.TrimSpace(r.half.Next(i+1)))
		}
	}
	fmt.Fprintf(r.f, "{\"dir\":%q,\"line\":%s}\n", dir, bytes.TrimSpace(b))
}
