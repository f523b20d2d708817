package sse_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"innerd/events"
	"innerd/events/sse"
	"innerd/test/mutate"
)

// frames reads a stream and writes each frame as id|event|data.
func frames(r io.Reader, opt *sse.Options) (got []string, err error) {
	rd := sse.NewReader(r, opt)
	for {
		f, err := rd.Next()
		if err != nil {
			return got, err
		}
		got = append(got, fmt.Sprintf("%s|%s|%s", f.ID, f.Event, f.Data))
	}
}

func TestReader(t *testing.T) {
	tests := []struct {
		name, in string
		want     []string
		err      error
	}{
		{"empty", "", nil, io.EOF},
		{"one", "id: 1\ndata: x\n\n", []string{"1||x"}, io.EOF},
		{"crlf", "id: 1\r\ndata: x\r\n\r\ndata: y\r\n\r\n", []string{"1||x", "||y"}, io.EOF},
		{"cr", "id: 1\rdata: x\r\rdata: y\r\r", []string{"1||x", "||y"}, io.EOF},
		{"mixed", "data: x\r\ndata: y\n\rdata: z\n\n", []string{"||x\ny", "||z"}, io.EOF},
		{"mark", "\ufeffdata: x\n\n", []string{"||x"}, io.EOF},
		{"mark only once", "\ufeff\ufeffdata: x\n\n", nil, io.EOF},
		{"half a mark", "\xef\xbb", nil, io.ErrUnexpectedEOF},
		{"comments", ": hi\n\n:\ndata: x\n: in between\n\n", []string{"||x"}, io.EOF},
		{"lines", "data: a\ndata:\ndata:  b\n\n", []string{"||a\n\n b"}, io.EOF},
		{"no colon", "data\n\n", []string{"||"}, io.EOF},
		{"event", "event: e\nretry: 5\nfoo: bar\ndata: x\n\n", []string{"|e|x"}, io.EOF},
		{"id alone", "id: 7\n\ndata: x\n\n", []string{"||x"}, io.EOF},
		{"id with zero", "id: a\x00b\ndata: x\n\n", []string{"||x"}, io.EOF},
		{"unicode line ends", "data: a\u0085b\u2028c\u2029d\x0b\x0ce\n\n", []string{"||a\u0085b\u2028c\u2029d\x0b\x0ce"}, io.EOF},
		{"cut in data", "data: x\n\ndata: y", []string{"||x"}, io.ErrUnexpectedEOF},
		{"cut before the blank line", "data: x\n\ndata: y\n", []string{"||x"}, io.ErrUnexpectedEOF},
	}
	for _, tt := range tests {
		for how, wrap := range map[string]func(io.Reader) io.Reader{
			"whole": func(r io.Reader) io.Reader { return r }, "bytes": iotest.OneByteReader,
			"half": iotest.HalfReader, "eof with data": iotest.DataErrReader,
		} {
			t.Run(tt.name+"/"+how, func(t *testing.T) {
				got, err := frames(wrap(strings.NewReader(tt.in)), nil)
				if d := cmp.Diff(tt.want, got); d != "" || !errors.Is(err, tt.err) {
					t.Fatalf("%v %s", err, d)
				}
			})
		}
	}
}

func TestReaderGivesAFrameAtOnce(t *testing.T) {
	for _, blank := range []string{"\n\n", "\r\n\r\n", "\r\r"} {
		pr, pw := io.Pipe()
		rd := sse.NewReader(pr, nil)
		for i := range 3 {
			go func() { _, _ = io.WriteString(pw, fmt.Sprintf("data: %d%s", i, blank)) }()
			f, err := rd.Next()
			if err != nil || string(f.Data) != fmt.Sprint(i) {
				t.Fatalf("%q %v", f.Data, err)
			}
		}
		_ = pw.Close()
		if _, err := rd.Next(); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
}

func TestReaderLength(t *testing.T) {
	long := strings.Repeat("x", 3<<20)
	got, err := frames(strings.NewReader("data: "+long+"\n\ndata: y\n\n"), nil)
	if !errors.Is(err, io.EOF) || len(got) != 2 || got[0] != "||"+long || got[1] != "||y" {
		t.Fatalf("%d frames, %v", len(got), err)
	}
	for _, in := range []string{
		"data: ok\n\ndata: " + long + "\n\n",
		"data: ok\n\n" + strings.Repeat("data: 12345678\n", 200) + "\n",
		"data: ok\n\ndata: " + long, // no end in sight
	} {
		rd := sse.NewReader(strings.NewReader(in), &sse.Options{MaxBytes: 1000})
		if f, err := rd.Next(); err != nil || string(f.Data) != "ok" {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := rd.Next(); !errors.Is(err, sse.ErrTooLong) {
				t.Fatalf("want ErrTooLong, got %v", err)
			}
		}
	}
}

func TestReaderError(t *testing.T) {
	broken := errors.New("broken")
	got, err := frames(io.MultiReader(strings.NewReader("data: x\n\ndata: y"), iotest.ErrReader(broken)), nil)
	if !errors.Is(err, broken) || len(got) != 1 {
		t.Fatal(got, err)
	}
}

func TestLastID(t *testing.T) {
	rd := sse.NewReader(strings.NewReader("id: 4\ndata: x\n\ndata: beat\n\nid: 9\n\n"), nil)
	for _, want := range []string{"4", "4"} {
		if _, err := rd.Next(); err != nil || rd.LastID() != want {
			t.Fatal(rd.LastID(), err)
		}
	}
	if _, err := rd.Next(); !errors.Is(err, io.EOF) || rd.LastID() != "9" {
		t.Fatal(rd.LastID(), err)
	}
}

func TestWriter(t *testing.T) {
	h := http.Header{}
	sse.SetHeader(h)
	if h.Get("Content-Type") != "text/event-stream" || h.Get("X-Accel-Buffering") != "no" {
		t.Fatal(h)
	}
	b, err := sse.AppendFrame([]byte(">"), events.Heartbeat{Status: "waiting", ElapsedS: 15, IdleS: 15})
	want := `>data: {"type":"heartbeat","data":{"status":"waiting","elapsed_s":15,"idle_s":15}}` + "\n\n"
	if err != nil || string(b) != want {
		t.Fatalf("%s %v", b, err)
	}
	rd := sse.NewReader(strings.NewReader(string(b[1:])+sse.DoneFrame), nil)
	f, err := rd.Next()
	if err != nil || f.Done() {
		t.Fatal(err)
	}
	if f, err = rd.Next(); err != nil || !f.Done() {
		t.Fatal(err)
	}
	if _, err := sse.AppendFrame(nil, events.Unknown{Type: "x", Raw: []byte("{")}); err == nil {
		t.Fatal("no error")
	}
}

// FuzzReader checks that the pieces in which a stream arrives make no
// difference, and that frames written again are read as the same.
func FuzzReader(f *testing.F) {
	f.Add([]byte("\ufeffid: 1\r\ndata: x\rdata: y\n\n: c\nevent: e\ndata\n\n"), 3)
	f.Add([]byte("data: a\u2028b\n\ndata: cut"), 1)
	for bad := range mutate.Bytes([]byte("\ufeffid: 1\r\ndata: x\rdata: y\n\n: c\nevent: e\ndata\n\nid: 2\ndata: z\n\n"), 200) {
		f.Add(bad, len(bad))
	}
	for _, run := range mutate.Files(f, "../../test/testdata/state-v1/runs/*/*.jsonl", 1) {
		var seed []byte
		for line := range bytes.Lines(run) {
			e, err := events.ParseLine(line)
			if err != nil {
				f.Fatal(err)
			}
			seed = fmt.Appendf(seed, "id: %d\ndata: %s\n", e.ID, line)
		}
		f.Add(seed, 1)
		for bad := range mutate.Bytes(seed, 30) {
			f.Add(bad, len(bad))
		}
	}
	f.Fuzz(func(t *testing.T, in []byte, piece int) {
		opt := &sse.Options{MaxBytes: 200}
		if piece%2 != 0 {
			opt.MaxBytes = 4 << 10 // most events are longer than that
		}
		a, aerr := frames(bytes.NewReader(in), opt)
		b, berr := frames(&pieces{b: in, n: max(piece%17, 1)}, opt)
		if d := cmp.Diff(a, b); d != "" || !errors.Is(aerr, berr) {
			t.Fatalf("%v, %v: %s", aerr, berr, d)
		}
		rd := sse.NewReader(bytes.NewReader(in), opt)
		for {
			fr, err := rd.Next()
			if err != nil {
				break
			}
			out := "data: " + strings.ReplaceAll(string(fr.Data), "\n", "\ndata: ") + "\n\n"
			again, err := sse.NewReader(strings.NewReader(out), nil).Next()
			if err != nil || !bytes.Equal(again.Data, fr.Data) {
				t.Fatalf("%q became %q, %v", fr.Data, again.Data, err)
			}
		}
	})
}

type pieces struct {
	b []byte
	n int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.b) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(p.n, len(b))], p.b)
	p.b = p.b[n:]
	return n, nil
}

func BenchmarkReader(b *testing.B) {
	frame := []byte("id: 1234567\ndata: {\"id\":1234567,\"ts\":1700000000000,\"type\":\"assistant.message_delta\",\"data\":{\"delta\":\"0123456789\",\"message_id\":\"m\"}}\n\n")
	in := bytes.Repeat(frame, 1000)
	b.SetBytes(int64(len(in)))
	for b.Loop() {
		if got, _ := count(in); got != 1000 {
			b.Fatal(got)
		}
	}
}

func count(in []byte) (n int, err error) {
	rd := sse.NewReader(bytes.NewReader(in), nil)
	for ; err == nil; n++ {
		_, err = rd.Next()
	}
	return n - 1, err
}
