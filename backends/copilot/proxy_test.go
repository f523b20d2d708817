package copilot_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"

	"innerd/backends/backendtest"
)

// proxy is the real copilot with noise on its stdout: its process stands
// between the backend and the real one. The noise comes after the first
// message; what is deaf is so from the first call of a host's tool on.
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

// readFrame reads one message of copilot's; nil at the end.
func readFrame(r *bufio.Reader) []byte {
	n := -1
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return nil
		}
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			break
		}
		if _, v, ok := strings.Cut(strings.ToLower(line), "content-length:"); ok {
			n, _ = strconv.Atoi(strings.TrimSpace(v))
		}
	}
	body := make([]byte, max(n, 0))
	if _, err := io.ReadFull(r, body); err != nil {
		return nil
	}
	return body
}

func writeFrame(w io.Writer, body string) {
	_, _ = fmt.Fprintf(w, "Content-Length: %d\r\n\r\n%s", len(body), body)
}

func pass(out io.Reader, noise backendtest.Noise, deaf *sync.Mutex) {
	r := bufio.NewReaderSize(out, 1<<16)
	done := false
	for {
		body := readFrame(r)
		if body == nil {
			return
		}
		writeFrame(os.Stdout, string(body))
		switch {
		case done:
		case noise == backendtest.NoiseDeaf && bytes.Contains(body, []byte(`"type":"external_tool.requested"`)):
			done = true
			// The reader of stdin may be in a read; what it takes is a piece of
			// 4 KiB, and the result is much longer.
			locked := make(chan struct{})
			go func() { deaf.Lock(); close(locked) }()
			for range 4 << 10 {
				writeFrame(os.Stdout, fmt.Sprintf(`{"jsonrpc":"2.0","method":"session.lifecycle","params":{"pad":%q}}`, strings.Repeat("n", 1000)))
			}
			<-locked
			deaf.Unlock()
		case bytes.Contains(body, []byte(`"type":"assistant.message"`)) && bytes.Contains(body, []byte(`"content":"before"`)):
			done = true
			makeNoise(noise, sessionOf(body))
		}
	}
}

func sessionOf(body []byte) string {
	_, rest, _ := bytes.Cut(body, []byte(`"sessionId":"`))
	id, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(id)
}

func makeNoise(n backendtest.Noise, session string) {
	event := func(event string) {
		writeFrame(os.Stdout, `{"jsonrpc":"2.0","method":"session.event","params":{"sessionId":"`+session+`","event":`+event+`}}`)
	}
	switch n {
	case backendtest.NoiseHugeLine:
		writeFrame(os.Stdout, `{"jsonrpc":"2.0","method":"x","params":"`+strings.Repeat("x", 64<<20)+`"}`)
		fmt.Println(strings.Repeat("x", 64<<20+1))
	case backendtest.NoiseNotJSON:
		fmt.Printf("\nwarning: this is no JSON\n%sü and on\n\xff\xfe\xfd\n[1]\nnull\n", strings.Repeat("a", 199))
		for _, body := range []string{"warning: this is no JSON", strings.Repeat("a", 199) + "ü and on", "\xff\xfe\xfd", "[1]", "null", ""} {
			writeFrame(os.Stdout, body)
		}
	case backendtest.NoiseUnknownEvent:
		writeFrame(os.Stdout, `{"jsonrpc":"2.0","method":"tomorrow","params":{"news":[1]}}`)
		writeFrame(os.Stdout, `{"jsonrpc":"2.0","id":"zz","method":"tomorrow.ask","params":{"news":[1]}}`)
		event(`{"type":"tomorrow","data":{"news":[1,{"b":null}]}}`)
		event(`{"data":{"deltaContent":7},"type":"assistant.message_delta"}`)
		event(`{"type":"assistant.message_delta","data":{"messageId":7,"deltaContent":{}},"mood":"good"}`)
		event(`{"type":"assistant.usage","data":{"duration":1.5,"inputTokens":"many"}}`)
		event(`{"type":"tool.execution_complete","data":{"toolCallId":"zz","success":"yes","result":"x"}}`)
		event(`{"type":"assistant.message","data":{"messageId":"zz","content":""},"level":9}`)
		event(`7`)
	}
}
