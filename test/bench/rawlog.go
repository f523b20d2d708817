package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strconv"
	"time"

	"innerd/events"
	"innerd/events/journal"
	"innerd/events/sse"
)

// pacedLog is a log to which stamped deltas are appended at a rate.
type pacedLog struct {
	store  *journal.Store
	log    *journal.Log
	cursor *journal.Cursor
	stop   context.CancelFunc
}

func openPacedLog(ctx context.Context, dir string) (*pacedLog, error) {
	store, err := journal.Open(dir, nil)
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(ctx)
	go func() { _ = store.Run(running) }() // the sync each second; ends with stop
	p := &pacedLog{store: store, stop: stop}
	if p.log, err = store.Create(journal.RunMeta{ID: "bench-log", Created: time.Now()}); err == nil {
		p.cursor, err = p.log.Follow(0, nil)
	}
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

func (p *pacedLog) close() error {
	if p.cursor != nil {
		p.cursor.Close()
	}
	p.stop()
	return p.store.Close()
}

// append appends n deltas.
func (p *pacedLog) append(rate float64, n int64) (err error) {
	pace(rate, n, func(int64) {
		if _, aerr := p.log.Append(events.MessageDelta{Delta: stamped(), MessageID: "m1"}); aerr != nil {
			err = aerr
		}
	})
	return err
}

// rawLog appends stamped deltas to a log and follows it in the same process.
func rawLog(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return errors.New("role rawlog DIR N")
	}
	n, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return err
	}
	p, err := openPacedLog(ctx, args[0])
	if err != nil {
		return err
	}
	followed := make(chan lags)
	go func() { followed <- follow(ctx, p.cursor, n) }() // ends with the n-th event
	err = p.append(latencyRate, n)
	l := <-followed
	return errors.Join(err, p.close(), json.NewEncoder(os.Stdout).Encode(l))
}

func follow(ctx context.Context, c *journal.Cursor, n int64) (l lags) {
	for int64(len(l)) < n {
		batch, err := c.Next(ctx)
		if err != nil {
			return l
		}
		now := time.Now().UnixNano()
		for _, frames := range batch.Frames() {
			l, _ = takeLags(l, frames, now)
		}
	}
	return l
}

// loggedPaced is paced with a log between: the raw log, as readers see it.
func loggedPaced(w http.ResponseWriter, r *http.Request) {
	n, _ := strconv.ParseInt(r.FormValue("n"), 10, 64)
	p, err := openPacedLog(r.Context(), r.FormValue("dir"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer p.close() //nolint:errcheck // nobody reads it again
	sse.SetHeader(w.Header())
	rc := http.NewResponseController(w)
	_ = rc.Flush()
	appended := make(chan error)
	go func() { appended <- p.append(latencyRate, n) }() // ends after n deltas
	for sent := int64(0); sent < n; {
		batch, err := p.cursor.Next(r.Context())
		if err != nil {
			break
		}
		for _, frames := range batch.Frames() {
			_, _ = w.Write(frames)
		}
		_ = rc.Flush()
		sent += int64(batch.Len())
	}
	<-appended
	_, _ = w.Write([]byte(sse.DoneFrame))
}
