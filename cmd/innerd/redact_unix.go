//go:build linux || darwin

package main

import (
	"context"
	"fmt"
	"strings"

	"innerd/adapter"
	"innerd/cmd/innerd/shield"
	"innerd/runs/redact"
)

// redactor is what --redact and --redact-file take out of events; nil: nothing.
func (s *server) redactor(ctx context.Context) (*redact.Set, error) {
	defer func() { s.app.keyLines = nil }()
	mode, path := s.cfg.set.str("redact"), s.cfg.set.str("redact-file")
	if mode == "off" && path == "" {
		return nil, nil
	}
	var patterns []string
	if mode == "common" {
		patterns = redact.Common()
	}
	if path != "" {
		raw, err := s.app.readInput(ctx, path)
		if err != nil {
			return nil, usageError{fmt.Errorf("--redact-file: %w", err)}
		}
		own, err := redact.Read(raw)
		if err != nil {
			return nil, usageError{fmt.Errorf("--redact-file %s: %w", path, err)}
		}
		patterns = append(patterns, own...)
	}
	set, err := redact.New(patterns...)
	if err != nil {
		return nil, usageError{err} // cannot be: they were read
	}
	return set.Known(s.secrets(ctx)...), nil
}

// secrets are the keys that this server knows: of its callers, and those that
// reach models.
func (s *server) secrets(ctx context.Context) []string {
	var out []string
	for _, name := range append(shield.Names(), backendKeys()...) {
		v := s.app.getenv(name)
		out = append(out, v)
		for entry := range strings.SplitSeq(v, ",") {
			out = append(out, adapter.Secret(entry))
			if _, value, ok := strings.Cut(entry, "="); ok { // a header for a collector
				out = append(out, value)
			}
		}
	}
	for _, line := range s.app.keyLines {
		out = append(out, adapter.Secret(line))
	}
	if path := s.cfg.access.token; path != "" {
		raw, _ := s.app.readInput(ctx, path) // it was read before
		out = append(out, adapter.Secret(string(raw)))
	}
	return append(out, s.lateSecrets...)
}

func backendKeys() []string {
	var out []string
	for _, b := range backendNames {
		out = append(out, "INNERD_"+strings.ToUpper(strings.ReplaceAll(b, "-", "_"))+"_API_KEY")
	}
	return out
}
