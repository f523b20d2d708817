package push

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"innerd/adapter/a2a/spec"
)

// errGone is a receiver that wants nothing any more.
var errGone = errors.New("the receiver is gone (410)")

// run delivers until the task's last notification.
func (s *Service) run(ctx context.Context, d *delivery) {
	log := s.opt.Logger.With("run", d.Config.TaskID, "config", d.Config.ID)
	feed, err := s.source(ctx, d.Owner, d.Config.TaskID, d.After)
	switch {
	case errors.Is(err, ErrGone):
		if err := s.Delete(d.Owner, d.Config.TaskID, d.Config.ID); err != nil {
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
			s.advance(ctx, d, 0, true)
			return
		}
		if err == nil {
			err = s.deliver(ctx, d, payload)
		}
		switch {
		case errors.Is(err, errGone):
			log.Info("a webhook answered 410 and gets nothing more")
			s.advance(ctx, d, 0, true)
			return
		case err != nil:
			if ctx.Err() == nil {
				log.Error("push notifications end", "error", err)
			}
			return
		}
		s.advance(ctx, d, id, false)
	}
}

// advance writes down how far a delivery got. A crash before that repeats a
// notification: at least once.
func (s *Service) advance(ctx context.Context, d *delivery, id int64, done bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil && s.ctx.Err() == nil {
		return // it was deleted or replaced
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

// deliver tries until the receiver has taken it.
func (s *Service) deliver(ctx context.Context, d *delivery, payload []byte) error {
	wait := s.opt.Backoff
	for try := 1; ; try++ {
		err := s.post(ctx, &d.Config, payload)
		if err == nil || errors.Is(err, errGone) || ctx.Err() != nil {
			return err
		}
		s.opt.Logger.Info("a push notification was not taken", "run", d.Config.TaskID, "config", d.Config.ID, "try", try, "error", err)
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

// post makes one request. Its errors name no URL, which may hold a secret.
func (s *Service) post(ctx context.Context, c *spec.PushConfig, payload []byte) error {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, bytes.NewReader(payload))
	if err != nil {
		return errors.New("the URL cannot be called")
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
		for inner := err; inner != nil; inner = errors.Unwrap(inner) {
			err = inner // the outer ones name the URL
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

func authorization(c *spec.PushConfig) string {
	if c.Authentication == nil || c.Authentication.Scheme == "" {
		return ""
	}
	if c.Authentication.Credentials == "" {
		return c.Authentication.Scheme
	}
	return c.Authentication.Scheme + " " + c.Authentication.Credentials
}
