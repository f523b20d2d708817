//go:build linux || darwin

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"innerd/adapter"
)

// access is who may call a server.
type access struct {
	keys  []adapter.Key
	open  bool
	field bool   // open because the field's launch, which sends no key, was seen
	token string // path of the token that is the key, "" without
}

// access resolves --auth: keys if there are any; else open for the field's
// launch, which has none to send; else a token in the state directory. It is
// never open by accident.
func (a *app) access(ctx context.Context, set *resolved, stateDir string) (*access, error) {
	keys, err := a.keys(ctx, set)
	if err != nil {
		return nil, usageError{err}
	}
	mode := set.str("auth")
	switch {
	case mode == "off":
		if len(keys) > 0 {
			a.warn("--auth=off: the keys that were given are not asked for")
		}
		return &access{open: true}, nil
	case len(keys) > 0:
		return &access{keys: keys}, nil
	case mode == "auto" && fieldLaunch(a.getenv):
		return &access{open: true, field: true}, nil
	}
	path := filepath.Join(stateDir, "token")
	token, err := a.ensureToken(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("no keys were given and no token can be kept (%w); set INNERD_API_KEYS or --api-key-file, or say --auth=off", err)
	}
	return &access{keys: []adapter.Key{adapter.NewKey(adapter.DefaultOwner, token)}, token: path}, nil
}

func (a *app) keys(ctx context.Context, set *resolved) ([]adapter.Key, error) {
	for entry := range strings.SplitSeq(a.getenv("INNERD_API_KEYS"), ",") {
		if err := adapter.CheckKey(entry); err != nil {
			return nil, fmt.Errorf("INNERD_API_KEYS: %w", err)
		}
	}
	keys := append(adapter.ParseKeys(a.getenv("INNERD_API_KEYS")), adapter.ParseSecrets(a.getenv("II_AGENT_A2A_API_KEYS"))...)
	if path := set.str("api-key-file"); path != "" {
		raw, err := a.readInput(ctx, path)
		if err != nil {
			return nil, fmt.Errorf("key file: %w", err)
		}
		more, lines, err := adapter.ParseKeyFile(raw)
		if err != nil {
			return nil, fmt.Errorf("key file %s: %w", path, err)
		}
		if len(more) == 0 {
			return nil, fmt.Errorf("key file %s: there is no key in it", path)
		}
		keys, a.keyLines = append(keys, more...), lines
	}
	return keys, nil
}

// fieldLaunch reports whether this server was started the way the field starts
// its adapters.
func fieldLaunch(getenv func(string) string) bool {
	return strings.EqualFold(strings.TrimSpace(getenv("SANDBOX_ADAPTER_ENABLED")), "true") ||
		strings.TrimSpace(getenv("SANDBOX_ADAPTER_BACKEND")) != ""
}

// ensureToken reads the token of a state directory, or makes it once. Only the
// server's own user can read it.
func (a *app) ensureToken(ctx context.Context, path string) (string, error) {
	for range 2 {
		raw, err := a.readInput(ctx, path)
		if token := strings.TrimSpace(string(raw)); err == nil && token != "" {
			return token, tighten(path)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		token, err := writeToken(path)
		if errors.Is(err, fs.ErrExist) {
			continue // another server was first
		}
		return token, err
	}
	return "", fmt.Errorf("%s: cannot be made", path)
}

// writeToken makes the file whole or not at all: its name appears with its
// content in it.
func writeToken(path string) (string, error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	tmp, err := os.CreateTemp(dir, "token-*") // 0600
	if err != nil {
		return "", err
	}
	defer os.Remove(tmp.Name())
	token := rand.Text()
	_, err = tmp.WriteString(token + "\n")
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return "", err
	}
	if raw, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(raw)) == "" {
		return token, os.Rename(tmp.Name(), path) // an empty file of a crash
	}
	return token, os.Link(tmp.Name(), path)
}

func tighten(path string) error {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&0o077 == 0 {
		return err
	}
	return os.Chmod(path, 0o600)
}
