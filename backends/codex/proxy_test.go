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
	var deaf sync.Mutex // held while nothing is read
	go func() {         // ends with the process
		defer in.Close() //nolint:errcheck // the end
		buf := make([]byte, 4096)
		for {
			deaf.Lock()
			n, err := os.Stdin.Read(buf)
			deaf.Unlock()
			if n > 0 {
				if _, err := in.Write(buf[:n]); err != nil {
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	pass(out, backendtest.Noise(os.Getenv("TEST_NOISE")), &deaf)
	if err := cmd.Wait(); err != nil {
		return 1
	}
	return 0
}

func pass(out io.Reader, noise backendtest.Noise, deaf *sync.Mutex) {
	r := bufio.NewReaderSize(out, 1<<16)
	done := false
	for {
		line, err := r.ReadBytes('\n')
		if len(line) > 0 {
			_, _ = os.Stdout.Write(line)
		}
		switch {
		case done:
		case noise == backendtest.NoiseDeaf && bytes.Contains(line, []byte(`"method":"item/tool/call"`)):
			done = true
			// The reader of stdin may be in a read; what it takes is a piece of
			// 4 KiB, and the result is much longer.
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
