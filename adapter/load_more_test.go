package adapter_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"innerd/adapter/api"
	"innerd/events"
)

// A small body that does not say how long it is waits for nobody, neither when
// it is read nor before its answer is made.
func TestSmallChunkedBodiesDoNotWait(t *testing.T) {
	s := scaled(t, soon)
	s.sender(t, "/message:stream", largeRun("large-one")).asked(soon)
	came := make(chan int, 1)
	go func() { // ends with its answer
		body := io.MultiReader(strings.NewReader(`{"messages":[{"role":"user",`), strings.NewReader(`"content":"x"}]}`))
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/message:send", body)
		res, err := s.Client().Do(req)
		if err != nil {
			came <- 0
			return
		}
		_ = res.Body.Close()
		came <- res.StatusCode
	}()
	run := <-s.fake.started
	run.end(t, events.Message{MessageID: "m", Content: "x"})
	select {
	case code := <-came:
		if code != http.StatusOK {
			t.Errorf("status %d", code)
		}
	case <-time.After(8 * time.Second): // a holder lets go after ten
		t.Error("its answer waits for a large body")
	}
}

// Who waits for its turn when the server stops is told so: nothing was begun.
func TestStoppingRefusesWhoWaits(t *testing.T) {
	s := scaled(t, soon)
	first := s.sender(t, "/message:stream", largeRun("large-one"))
	first.asked(soon)
	second := s.sender(t, "/message:stream", largeRun("large-two"))
	if second.asked(never) {
		t.Fatal("it does not wait")
	}
	s.adapter.Drain()
	_ = second.conn.SetReadDeadline(time.Now().Add(soon))
	res, err := http.ReadResponse(second.in, nil)
	if err != nil {
		t.Fatal(err)
	}
	var said api.Error
	if err := json.NewDecoder(res.Body).Decode(&said); err != nil || res.StatusCode != http.StatusInternalServerError || said.ErrorType != api.ErrShutdown {
		t.Errorf("%d %+v, %v", res.StatusCode, said, err)
	}
	if code := first.answer(); code != http.StatusOK {
		t.Errorf("what was being read: %d", code)
	}
}
