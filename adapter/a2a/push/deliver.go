package push

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"innerd/adapter/a2a/spec"
)

var (
	// errGone is a receiver that wants nothing any more.
	errGone = errors.New("the receiver is gone (410)")
	// errGivenUp is one that has taken nothing for too long.
	errGivenUp = errors.New("the receiver has taken nothing for too long")
	// errIllMade is a configuration that can never be sent to.
	errIllMade = errors.New("the URL, or what stands in a header, is ill-made")
)

// run delivers until the task's last notification.
func (s *Service) run(ctx context.Context, d *delivery) {
	log := s.opt.Logger.With("run", d.Config.TaskID, "config", d.Config.ID)
	feed, err := s.source(ctx, d.Owner, d.Config.TaskID, d.After)
	switch {
	case errors.Is(err, ErrGone):
		if err := s.drop(d); err != nil {
			log.Warn("a push notification configuration was not removed", "error", err)
		}
		return
	case err != nil:
		if ctx.Err() == nil {
			log.Error("push notifications of a task cannot be read", "error", err)
		}
		return
	}
	defer feed.Close()
	for {
		payload, id, err := feed.Next(ctx)
		if errors.Is(err, io.EOF) {
			s.advance(d, 0, true)
			return
		}
		if err == nil {
			err = s.deliver(ctx, d, payload)
		}
		switch {
		case errors.Is(err, errGone):
			log.Info("a webhook answered 410 and gets nothing more")
			s.advance(d, 0, true)
			return
		case errors.Is(err, errIllMade):
			log.Warn("push notifications cannot be sent as they are configured, and end", "error", err)
			s.advance(d, 0, true)
			return
		case errors.Is(err, errGivenUp):
			log.Warn("a webhook has taken nothing for too long and gets nothing more", "for", s.opt.GiveUp.String())
			s.advance(d, 0, true)
			return
		case err != nil:
			if ctx.Err() == nil {
				log.Error("push notifications end", "error", err)
			}
			return
		}
		s.advance(d, id, false)
	}
}

// advance writes down how far a delivery got. A crash before that repeats a
// notification: at least once.
func (s *Service) advance(d *delivery, id int64, done bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.gone {
		return // what stands in its file, if anything, is another's
	}
	if id > 0 {
		d.After = id
	}
	d.Done = done
	raw, err := json.Marshal(d)
	if err == nil {
		err = s.store.PutFile(d.path(), raw)
	}
	if err != nil {
		s.opt.Logger.Warn("the place of a push notification was not written", "run", d.Config.TaskID, "error", err)
	}
}

// deliver tries until the receiver has taken it. The time in the line for the
// first request is not the receiver's, nor is that from a request that went
// nowhere to the next one.
func (s *Service) deliver(ctx context.Context, d *delivery, payload []byte) error {
	wait := s.opt.Backoff
	var began, nowhere time.Time // nowhere is when the last request was tried, if it went there
	for try := 1; ; try++ {
		slots := s.slotsOf(d)
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		now := time.Now()
		switch {
		case try == 1:
			began = now
		case !nowhere.IsZero():
			began = began.Add(now.Sub(nowhere))
		}
		nowhere = time.Time{}
		err := s.post(ctx, d, payload)
		<-slots
		s.noteAfter(ctx, d, err)
		if err == nil || errors.Is(err, errGone) || errors.Is(err, errIllMade) || ctx.Err() != nil {
			return err
		}
		s.opt.Logger.Info("a push notification was not taken", "run", d.Config.TaskID, "config", d.Config.ID, "try", try, "error", err)
		switch {
		case wentNowhere(err):
			nowhere = now
		case time.Since(began) >= s.opt.GiveUp:
			return errGivenUp
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
		wait = min(2*wait, maxBackoff)
	}
}

// noteAfter notes what a request says of the place that it went to.
func (s *Service) noteAfter(ctx context.Context, d *delivery, err error) {
	switch {
	case errors.Is(err, errGone):
		s.note(d, nil) // an answer like another: the place is there
	case err != nil && ctx.Err() != nil:
	case errors.Is(err, errIllMade), wentNowhere(err):
	default:
		s.note(d, err)
	}
}

// wentNowhere reports whether a request failed for want of a descriptor of our
// own, which says nothing of its receiver.
func wentNowhere(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// post makes one request. Its errors name no URL, which may hold a secret.
func (s *Service) post(ctx context.Context, d *delivery, payload []byte) error {
	c := &d.Config
	u, err := url.Parse(c.URL)
	if err != nil || u.Hostname() == "" || !headerText(c.Token) || !headerText(authorization(c)) {
		return errIllMade
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, bytes.NewReader(payload))
	if err != nil {
		return errIllMade
	}
	h := req.Header
	h.Set("Content-Type", "application/a2a+json")
	h.Set("A2A-Version", spec.Version)
	if c.Token != "" { // the text of 1.0 names none; the SDKs disagree
		h.Set("X-A2A-Notification-Token", c.Token)
		h.Set("A2A-Notification-Token", c.Token)
	}
	if auth := authorization(c); auth != "" {
		h.Set("Authorization", auth)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		var named *url.Error // the URL
		for errors.As(err, &named) {
			err = named.Err
		}
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
	switch {
	case resp.StatusCode == http.StatusGone:
		return errGone
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return fmt.Errorf("the receiver answered %d", resp.StatusCode)
	}
	return nil
}

func (d *delivery) place() place {
	host := ""
	if u, err := url.Parse(d.Config.URL); err == nil {
		host = u.Host
	}
	return place{d.Owner, host}
}

// note keeps in mind whether a place takes what it is sent.
func (s *Service) note(d *delivery, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		delete(s.failing, d.place())
		return
	}
	s.failing[d.place()] = true
}

// slotsOf is the requests that may be on at once in a delivery's line. There are
// as many lines as keys, twice.
func (s *Service) slotsOf(d *delivery) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := line{d.Owner, s.failing[d.place()]}
	slots := s.slots[at]
	if slots == nil {
		n := maxParallel
		if at.again {
			n = maxAgain
		}
		slots = make(chan struct{}, n)
		s.slots[at] = slots
	}
	return slots
}

// headerText reports whether a text can be the value of a header.
func headerText(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

func authorization(c *spec.PushConfig) string {
	if c.Authentication == nil || c.Authentication.Scheme == "" {
		return ""
	}
	if c.Authentication.Credentials == "" {
		return c.Authentication.Scheme
	}
	return c.Authentication.Scheme + " " + c.Authentication.Credentials
}
