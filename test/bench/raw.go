package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"innerd/events"
	"innerd/events/sse"
)

// piece is how much the raw server writes at once.
const piece = 256 << 10

// rawState is the server to measure against: the same bytes as innerd's,
// ready-made, and nothing else done.
type rawState struct {
	mu     sync.Mutex
	frames []byte
	gate   chan struct{} // closed by go
}

// rawServer serves until its process is ended.
func rawServer(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("role raw ADDR")
	}
	st := &rawState{gate: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /load", st.load)
	mux.HandleFunc("POST /go", st.open)
	mux.HandleFunc("GET /flood", st.flood)
	mux.HandleFunc("GET /paced", paced)
	mux.HandleFunc("GET /log", loggedPaced)
	mux.HandleFunc("POST /first", firstDelta)
	srv := &http.Server{Addr: args[0], Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = srv.Close() })()
	if err := srv.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// load reads the frames of the next flood from a file, and shuts the gate.
func (st *rawState) load(w http.ResponseWriter, r *http.Request) {
	frames, err := os.ReadFile(r.FormValue("file"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.frames, st.gate = frames, make(chan struct{})
}

func (st *rawState) open(http.ResponseWriter, *http.Request) {
	st.mu.Lock()
	defer st.mu.Unlock()
	close(st.gate)
}

// flood writes the first frame, waits for the gate and writes the rest.
func (st *rawState) flood(w http.ResponseWriter, r *http.Request) {
	st.mu.Lock()
	frames, gate := st.frames, st.gate
	st.mu.Unlock()
	head, err := strconv.Atoi(r.FormValue("head"))
	if err != nil || head > len(frames) {
		http.Error(w, "head", http.StatusBadRequest)
		return
	}
	sse.SetHeader(w.Header())
	_, _ = w.Write(frames[:head])
	_ = http.NewResponseController(w).Flush()
	select {
	case <-gate:
	case <-r.Context().Done():
		return
	}
	for frames = frames[head:]; len(frames) > 0; {
		n := min(piece, len(frames))
		if _, err := w.Write(frames[:n]); err != nil {
			return
		}
		frames = frames[n:]
	}
}

// paced writes stamped frames at a rate, each flushed.
func paced(w http.ResponseWriter, r *http.Request) {
	n, _ := strconv.ParseInt(r.FormValue("n"), 10, 64)
	rate, err := strconv.ParseFloat(r.FormValue("rate"), 64)
	if err != nil || rate <= 0 {
		http.Error(w, "rate", http.StatusBadRequest)
		return
	}
	sse.SetHeader(w.Header())
	rc := http.NewResponseController(w)
	_ = rc.Flush()
	var buf []byte
	pace(rate, n, func(i int64) {
		buf = appendFrame(buf[:0], i+1, events.MessageDelta{Delta: stamped(), MessageID: "m1"})
		_, _ = w.Write(buf)
		_ = rc.Flush()
	})
	_, _ = w.Write([]byte(sse.DoneFrame))
}

// firstDelta is the least that a POST with a delta for an answer can be. With
// a folder it makes a run's files in it first, as a log must: creating a file
// is what some disks are slow at.
func firstDelta(w http.ResponseWriter, r *http.Request) {
	if dir := r.FormValue("dir"); dir != "" {
		err := os.Mkdir(dir, 0o700)
		for _, name := range []string{"request", "segment", "session"} {
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(stampFill), 0o600))
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	}
	sse.SetHeader(w.Header())
	_, _ = w.Write(appendFrame(nil, 1, events.MessageDelta{Delta: "Hello", MessageID: "m1"}))
}

// pace calls f n times at a rate, as simulate does: it sleeps to each time.
func pace(rate float64, n int64, f func(int64)) {
	start := time.Now()
	for i := range n {
		time.Sleep(time.Until(start.Add(time.Duration(float64(i) / rate * float64(time.Second)))))
		f(i)
	}
}

const stampFill = "abcdefghijklmnopqrst" // to 40 bytes

// stamped is the text of a stamped delta of 40 bytes.
func stamped() string {
	return strconv.FormatInt(time.Now().UnixNano(), 10) + " " + stampFill
}

func appendFrame(dst []byte, id int64, d events.Data) []byte {
	dst = fmt.Appendf(dst, "id: %d\ndata: ", id)
	dst, err := events.AppendLine(dst, id, time.Now().UnixMilli(), d)
	if err != nil {
		panic(err) // deltas are always JSON
	}
	return append(dst, "\n\n"...)
}
