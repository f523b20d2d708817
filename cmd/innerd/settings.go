package main

import (
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// source says where a setting's text came from; a higher one wins.
type source int

const (
	fromDefault source = iota
	fromField
	fromEnv
	fromFlag
)

// resolved is a table of settings with the text of each.
type resolved struct {
	text map[string]string
	from map[string]source
}

// addSettings makes the flags of a table.
func addSettings(cmd *cobra.Command, table []setting) {
	for _, s := range table {
		v := &value{kind: s.kind, text: s.def}
		cmd.Flags().Var(v, s.flag, s.usage())
		if s.kind == kindBool {
			cmd.Flags().Lookup(s.flag).NoOptDefVal = "true"
		}
		if words := kindWords[s.kind]; words != nil {
			_ = cmd.RegisterFlagCompletionFunc(s.flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
		}
		if s.kind == kindBackend {
			_ = cmd.RegisterFlagCompletionFunc(s.flag, cobra.FixedCompletions(backendNames, cobra.ShellCompDirectiveNoFileComp))
		}
	}
}

func (s setting) usage() string {
	u := s.help
	if s.note != "" {
		u += " (default: " + strings.ReplaceAll(s.note, "`", "") + ")"
	}
	return u + " [$" + strings.Join(append([]string{s.env()}, s.field...), ", $") + "]"
}

// resolve finds each setting: flag, then INNERD_*, then the field's variables,
// then the default. A bad INNERD_* is a usage error like a bad flag; a bad
// variable of the field is only warned of.
func resolve(cmd *cobra.Command, table []setting, getenv func(string) string, warn func(string)) (*resolved, error) {
	r := &resolved{text: map[string]string{}, from: map[string]source{}}
	for _, s := range table {
		text, from, err := s.find(cmd, getenv, warn)
		if err != nil {
			return nil, err
		}
		r.text[s.flag], r.from[s.flag] = text, from
	}
	return r, nil
}

func (s setting) find(cmd *cobra.Command, getenv func(string) string, warn func(string)) (string, source, error) {
	if f := cmd.Flags().Lookup(s.flag); f != nil && f.Changed {
		return f.Value.String(), fromFlag, nil
	}
	if raw := strings.TrimSpace(getenv(s.env())); raw != "" {
		text, err := normalize(s.kind, raw)
		if err != nil {
			return "", 0, usageError{fmt.Errorf("%s=%q: %w", s.env(), raw, err)}
		}
		return text, fromEnv, nil
	}
	for _, name := range s.field {
		raw := strings.TrimSpace(getenv(name))
		if raw == "" {
			continue
		}
		text, err := normalize(s.kind, raw)
		if err == nil && s.kind == kindPort && text == "0" {
			err = fmt.Errorf("must be more than 0")
		}
		if err == nil {
			return text, fromField, nil
		}
		warn(fmt.Sprintf("%s=%q is not used: %v; the default stands", name, raw, err))
	}
	return s.def, fromDefault, nil
}

func (r *resolved) str(flag string) string { return r.text[flag] }

func (r *resolved) bool(flag string) bool { return r.text[flag] == "true" }

func (r *resolved) list(flag string) []string {
	var out []string
	for item := range strings.SplitSeq(r.text[flag], ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}

// The texts were checked when they were set, so these cannot fail; an empty
// one is 0.

func (r *resolved) dur(flag string) time.Duration {
	d, _ := parseDuration(r.text[flag])
	return d
}

func (r *resolved) bytes(flag string) int64 {
	n, _ := parseBytes(r.text[flag])
	return n
}

func (r *resolved) int(flag string) int {
	var n int
	_, _ = fmt.Sscan(r.text[flag], &n)
	return n
}

// listenAddress joins --listen with --host and --port: what was said in a
// stronger way counts, and of two said in the same way the more exact one.
func listenAddress(set *resolved) string {
	host, port, err := net.SplitHostPort(set.str("listen"))
	if err != nil {
		return set.str("listen")
	}
	if set.str("host") != "" && set.from["host"] >= set.from["listen"] {
		host = strings.Trim(set.str("host"), "[]")
	}
	if set.str("port") != "" && set.from["port"] >= set.from["listen"] {
		port = set.str("port")
	}
	return net.JoinHostPort(host, port)
}
