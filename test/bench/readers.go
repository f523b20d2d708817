package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// readers are connections to one stream, each read to its end.
type readers struct {
	list     []*reader
	armed    sync.WaitGroup
	ended    sync.WaitGroup
	released atomic.Bool // the flood may begin
	cancel   context.CancelFunc
}

// reader is one of them, and what it saw.
type reader struct {
	crc    uint32
	bytes  int64
	frames int64
	cut    bool      // the last byte was a line end
	start  time.Time // of its first bytes after the release
	reads  [lastReads]arrival
	count  int // of reads
	err    error
}

// lastReads is how many reads are remembered: more than come after a flood.
const lastReads = 64

// arrival is how far a reader was at a time.
type arrival struct {
	at    time.Time
	bytes int64
}

// reached is when the reader had n bytes, as far as its last reads tell.
func (r *reader) reached(n int64) time.Time {
	at := r.reads[(r.count-1)%lastReads].at
	for i := range min(r.count, lastReads) {
		a := r.reads[(r.count-1-i)%lastReads]
		if a.bytes < n {
			break
		}
		at = a.at
	}
	return at
}

// attach opens n connections. Each is armed when it has read the mark, behind
// which the stream waits.
func attach(ctx context.Context, n int, url, mark string) *readers {
	ctx, cancel := context.WithCancel(ctx)
	rs := &readers{cancel: cancel}
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	for range n {
		r := &reader{}
		rs.list = append(rs.list, r)
		rs.armed.Add(1)
		rs.ended.Go(func() { // ends with the stream, or cancel
			armed := sync.OnceFunc(rs.armed.Done)
			defer armed()
			r.err = rs.read(ctx, r, client, url, mark, armed)
		})
	}
	return rs
}

const readBuffer = 64 << 10

func (rs *readers) read(ctx context.Context, r *reader, client *http.Client, url, mark string, armed func()) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close() //nolint:errcheck // read to its end
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, res.Status)
	}
	buf := make([]byte, readBuffer)
	if err := r.arm(res.Body, buf, mark); err != nil {
		return err
	}
	armed()
	for {
		n, err := res.Body.Read(buf)
		now := time.Now()
		if r.start.IsZero() && rs.released.Load() {
			r.start = now
		}
		r.take(buf[:n])
		r.reads[r.count%lastReads] = arrival{now, r.bytes}
		r.count++
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// arm reads until the mark has come.
func (r *reader) arm(body io.Reader, buf []byte, mark string) error {
	at := 0
	for {
		n, err := body.Read(buf[at:])
		at += n
		if bytes.Contains(buf[:at], []byte(mark)) {
			r.take(buf[:at])
			return nil
		}
		if err == nil && at == len(buf) {
			err = errors.New("the mark does not come")
		}
		if err != nil {
			return err
		}
	}
}

var frameEnd = []byte("\n\n")

// take finds the end of every frame and sums every byte, and no more: what a
// client spends here is missing to the server beside it.
func (r *reader) take(b []byte) {
	if len(b) == 0 {
		return
	}
	r.crc = crc32.Update(r.crc, castagnoli, b)
	r.bytes += int64(len(b))
	if r.cut && b[0] == '\n' {
		r.frames++
		b = b[1:]
	}
	r.frames += int64(bytes.Count(b, frameEnd))
	r.cut = bytes.HasSuffix(b, frameEnd[:1]) && !bytes.HasSuffix(b, frameEnd)
}

// release waits until all are armed and then lets the flood begin.
func (rs *readers) release(open func() error) error {
	rs.armed.Wait()
	rs.released.Store(true)
	err := open()
	if err != nil {
		rs.cancel()
	}
	return errors.Join(err, rs.wait())
}

// wait waits for the end of all, and checks that all saw the same.
func (rs *readers) wait() error {
	rs.ended.Wait()
	rs.cancel()
	for i, r := range rs.list {
		if r.err != nil {
			return fmt.Errorf("reader %d: %w", i, r.err)
		}
		if first := rs.list[0]; r.crc != first.crc || r.bytes != first.bytes {
			return fmt.Errorf("reader %d saw %d bytes with crc %08x, reader 0 %d with %08x", i, r.bytes, r.crc, first.bytes, first.crc)
		}
	}
	return nil
}

// took is from the first flood bytes at any reader until the last one has n
// bytes.
func (rs *readers) took(n int64) time.Duration {
	first, last := rs.list[0].start, time.Time{}
	for _, r := range rs.list {
		if r.start.Before(first) {
			first = r.start
		}
		if end := r.reached(n); end.After(last) {
			last = end
		}
	}
	return last.Sub(first)
}
