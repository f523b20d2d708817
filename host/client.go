package host

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"
)

// Options are what a Client can be told. The zero value of each is its default.
type Options struct {
	Key         string            // sent as Authorization: Bearer
	Transport   http.RoundTripper // nil: one of the client's own
	ReadTimeout time.Duration     // silence after which a stream counts as broken; 120 s (heartbeats come every 15 s)
	CallTimeout time.Duration     // of every call that is not a stream; 60 s
	GiveUp      time.Duration     // how long a broken stream is tried for without one new event; 5 min
	StartGiveUp time.Duration     // the same before the run's first event; 30 s, at most GiveUp
	Deadline    time.Duration     // of a whole stream, over all its connections; the run is then canceled. 0: none
	MinBackoff  time.Duration     // first pause after a broken connection; 100 ms, doubling
	MaxBackoff  time.Duration     // 5 s
	Logger      *slog.Logger      // what was resumed, and results that could not be delivered; nil: none
}

// Client talks to one server. Its methods may be called at the same time.
type Client struct {
	addr *address
	http *http.Client
	opt  Options
	log  *slog.Logger
}

// New makes a client of the server at baseURL, like "http://127.0.0.1:18100".
// It sends nothing.
func New(baseURL string, o *Options) (*Client, error) {
	base, err := checkURL(baseURL)
	if err != nil {
		return nil, err
	}
	return newClient(&address{now: base}, o), nil
}

// NewLazy makes a client of a server whose address is not known yet: a
// sandbox that is to be started, or woken. locate gives the URL and may take
// its time; it is asked at the first call, by one caller at a time, and again
// after no connection could be made, since a sandbox may come back elsewhere.
func NewLazy(locate func(context.Context) (string, error), o *Options) (*Client, error) {
	if locate == nil {
		return nil, errors.New("host: NewLazy needs a function that gives the URL")
	}
	return newClient(&address{locate: locate, turn: make(chan struct{}, 1)}, o), nil
}

func newClient(a *address, o *Options) *Client {
	c := &Client{addr: a}
	if o != nil {
		c.opt = *o
	}
	c.opt.setDefaults()
	c.log = c.opt.Logger
	c.http = &http.Client{
		Transport: c.opt.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
	return c
}

func (o *Options) setDefaults() {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&o.ReadTimeout, 120*time.Second)
	def(&o.CallTimeout, time.Minute)
	def(&o.GiveUp, 5*time.Minute)
	def(&o.StartGiveUp, 30*time.Second)
	o.StartGiveUp = min(o.StartGiveUp, o.GiveUp)
	def(&o.MinBackoff, 100*time.Millisecond)
	def(&o.MaxBackoff, 5*time.Second)
	if o.Transport == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.DisableCompression = true // a compressed stream arrives in blocks
		o.Transport = t
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// URL is the server's address, without a slash at its end; "" where it is not
// known yet.
func (c *Client) URL() string { return c.addr.known() }

// CloseIdleConnections closes connections that wait to be used again.
func (c *Client) CloseIdleConnections() { c.http.CloseIdleConnections() }

// request makes one HTTP request; path begins with a slash.
func (c *Client) request(ctx context.Context, method, path string, body []byte) (*http.Request, error) {
	base, err := c.addr.get(ctx)
	if err != nil {
		return nil, err
	}
	var r io.Reader
	if body != nil {
		r = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, base+path, r)
	if err != nil {
		return nil, fmt.Errorf("host: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if parent, state := Trace(ctx); parent != "" {
		req.Header.Set("traceparent", parent)
		if state != "" {
			req.Header.Set("tracestate", state)
		}
	}
	if c.opt.Key != "" {
		req.Header.Set("Authorization", "Bearer "+c.opt.Key)
	}
	return req, nil
}

// send does req and turns every failure into an *Error, but the end of ctx.
func (c *Client) send(req *http.Request) (*http.Response, error) {
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.transportError(req.Context(), err)
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, answerError(resp)
}

func (c *Client) transportError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err
	}
	e := &Error{ErrorType: TypeBroken, Err: err}
	if unreachable(err) {
		e.ErrorType = TypeUnreachable
		e.Detail = fmt.Sprintf("no server at %s: %v", c.addr.known(), err)
		c.addr.forget()
	}
	return e
}

// untrusted reports whether err is a certificate that no further try will mend.
func untrusted(err error) bool {
	var cert *tls.CertificateVerificationError
	return errors.As(err, &cert)
}

// call does one short call: in is marshalled unless nil, the answer goes to
// out unless nil.
func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	if _, err := c.addr.get(ctx); err != nil { // a sandbox may take longer than a call
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.opt.CallTimeout)
	defer cancel()
	return c.exchange(ctx, method, path, in, out)
}

// exchange is call without a time of its own.
func (c *Client) exchange(ctx context.Context, method, path string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return fmt.Errorf("host: %w", err)
		}
	}
	req, err := c.request(ctx, method, path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := c.send(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if out == nil || resp.StatusCode == http.StatusNoContent {
		_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxErrorBody))
		return err
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return &Error{ErrorType: TypeBroken, Detail: "answer of " + path + ": " + err.Error(), Err: err}
	}
	return nil
}
