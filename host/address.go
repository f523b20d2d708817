package host

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
)

// address is where the server is: fixed, or asked of locate.
type address struct {
	locate func(context.Context) (string, error) // nil: fixed
	turn   chan struct{}                         // of one: who asks locate

	mu  sync.Mutex
	now string // "": not known
}

// checkURL makes the beginning of all URLs of a server.
func checkURL(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil {
		return "", fmt.Errorf("host: %w", err)
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return "", fmt.Errorf("host: %q is not an http URL", s)
	}
	return strings.TrimRight(u.String(), "/"), nil
}

func (a *address) known() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.now
}

// forget has locate asked again; a fixed address stays.
func (a *address) forget() {
	if a.locate == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now = ""
}

// get gives the address. A failure of locate is an *Error, but for the end of ctx.
func (a *address) get(ctx context.Context) (string, error) {
	if now := a.known(); now != "" {
		return now, nil
	}
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	if now := a.known(); now != "" {
		return now, nil
	}
	s, err := a.locate(ctx)
	if err == nil {
		s, err = checkURL(s)
	}
	if err != nil {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		return "", &Error{ErrorType: TypeUnreachable, Detail: "the server's address: " + err.Error(), Err: err}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now = s
	return s, nil
}
