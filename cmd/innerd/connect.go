package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"innerd/host"
)

const defaultServer = "http://127.0.0.1:18100"

// errNoServer says that nobody named a server and none is at the usual place.
var errNoServer = errors.New("no server on " + defaultServer + "; start one with innerd serve, or name one with --server")

// connect makes the client of the server that is named, else of the one at
// the usual place if that is an innerd.
func (a *app) connect(ctx context.Context, cmd *cobra.Command) (*host.Client, error) {
	set, err := resolve(cmd, clientSettings(), a.getenv, a.warn)
	if err != nil {
		return nil, err
	}
	url, named := serverURL(set.str("server"))
	key, err := a.clientKey(ctx, set, url)
	if err != nil {
		return nil, err
	}
	c, err := host.New(url, &host.Options{Key: key, GiveUp: 2 * time.Minute})
	if err != nil {
		return nil, usageError{err}
	}
	if !named && !answers(ctx, c) {
		return nil, exitError{exitUnavailable, errNoServer}
	}
	return c, nil
}

// serverURL takes URLs, and addresses without their scheme.
func serverURL(s string) (url string, named bool) {
	switch {
	case s == "":
		return defaultServer, false
	case strings.Contains(s, "://"):
		return s, true
	}
	return "http://" + s, true
}

// answers reports whether an innerd is there: another program on the port
// must not be sent a prompt.
func answers(ctx context.Context, c *host.Client) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	h, err := c.Health(ctx)
	return err == nil && h.Status == "ok" && h.Backends != nil
}

// clientKey finds the key to send: INNERD_API_KEY, the key file, or the token
// of a server on this machine. None is no error: a server may be open.
func (a *app) clientKey(ctx context.Context, set *resolved, url string) (string, error) {
	if key := strings.TrimSpace(a.getenv("INNERD_API_KEY")); key != "" {
		return key, nil
	}
	if path := set.str("api-key-file"); path != "" {
		raw, err := a.readInput(ctx, path)
		if err != nil {
			return "", usageError{fmt.Errorf("key: %w", err)}
		}
		return firstKey(raw), nil
	}
	if !isLoopback(url) {
		return "", nil // a local token is nobody else's business
	}
	dir := set.str("state-dir")
	if dir == "" {
		dir = defaultStateDir(a.getenv)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "token"))
	if err != nil {
		return "", nil //nolint:nilerr // there is none, or it is not ours
	}
	return firstKey(raw), nil
}

func isLoopback(url string) bool {
	_, rest, _ := strings.Cut(url, "://")
	hostport, _, _ := strings.Cut(rest, "/")
	name, _, err := net.SplitHostPort(hostport)
	if err != nil {
		name = strings.Trim(hostport, "[]")
	}
	ip := net.ParseIP(name)
	return name == "localhost" || (ip != nil && ip.IsLoopback())
}

func (a *app) warn(s string) { fmt.Fprintln(a.err, "innerd: warning:", s) }
