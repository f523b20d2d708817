package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// kind says what a setting's text must be.
type kind int

const (
	kindString kind = iota
	kindList        // comma separated; repeated flags add up
	kindInt
	kindPort
	kindDuration // 15m, or seconds
	kindBytes    // 64MiB, or bytes
	kindBackend
	kindAuth
	kindFsync
	kindLogFormat
	kindLogLevel
	kindBool
	kindRedact
)

var kindNames = [...]string{"string", "list", "int", "port", "duration", "bytes", "name", "mode", "policy", "format", "level", "bool", "set"}

var kindWords = map[kind][]string{
	kindAuth:      {"auto", "required", "off"},
	kindFsync:     {"none", "end", "1s", "always"},
	kindLogFormat: {"text", "json"},
	kindLogLevel:  {"debug", "info", "warn", "error"},
	kindBool:      {"true", "false"},
	kindRedact:    {"off", "keys", "common"},
}

// value is a setting's text as a flag. It refuses what its kind does not allow.
type value struct {
	kind kind
	text string
	set  bool
}

func (v *value) String() string { return v.text }
func (v *value) Type() string   { return kindNames[v.kind] }

func (v *value) Set(s string) error {
	s = strings.TrimSpace(s)
	norm, err := normalize(v.kind, s)
	if err != nil {
		return err
	}
	if v.kind == kindList && v.set && v.text != "" {
		norm = v.text + "," + norm
	}
	v.text, v.set = norm, true
	return nil
}

// normalize checks the text of a kind and gives its usual spelling.
func normalize(k kind, s string) (string, error) {
	switch k {
	case kindInt:
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 {
			return "", errors.New("must be a whole number, not negative")
		}
	case kindPort:
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 || n > 65535 {
			return "", errors.New("must be a port, 0 to 65535")
		}
	case kindDuration:
		if _, err := parseDuration(s); err != nil {
			return "", err
		}
	case kindBytes:
		if _, err := parseBytes(s); err != nil {
			return "", err
		}
	case kindBackend:
		s = strings.ReplaceAll(strings.ToLower(s), "_", "-")
		if s != "" && !slices.Contains(backendNames, s) {
			return "", fmt.Errorf("must be one of %s", strings.Join(backendNames, ", "))
		}
	}
	if words := kindWords[k]; words != nil && !slices.Contains(words, s) {
		return "", fmt.Errorf("must be one of %s", strings.Join(words, ", "))
	}
	return s, nil
}

// parseDuration reads 15m, or a number of seconds as the field writes it. It
// is never zero or less.
func parseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if f, ferr := strconv.ParseFloat(s, 64); ferr == nil {
		if math.IsNaN(f) || f > math.MaxInt64/1e9 {
			return 0, errors.New("must be a time like 15m, or seconds")
		}
		d, err = time.Duration(f*float64(time.Second)), nil
	}
	if err != nil {
		return 0, errors.New("must be a time like 15m, or seconds")
	}
	if d <= 0 {
		return 0, errors.New("must be more than 0")
	}
	return d, nil
}

var byteUnits = []struct {
	suffix string
	factor float64
}{
	{"kib", 1 << 10},
	{"mib", 1 << 20},
	{"gib", 1 << 30},
	{"kb", 1e3},
	{"mb", 1e6},
	{"gb", 1e9},
	{"k", 1 << 10},
	{"m", 1 << 20},
	{"g", 1 << 30},
	{"b", 1},
}

// parseBytes reads 64MiB, or a number of bytes.
func parseBytes(s string) (int64, error) {
	low, factor := strings.ToLower(strings.TrimSpace(s)), 1.0
	for _, u := range byteUnits {
		if rest, ok := strings.CutSuffix(low, u.suffix); ok {
			low, factor = strings.TrimSpace(rest), u.factor
			break
		}
	}
	f, err := strconv.ParseFloat(low, 64)
	if err != nil || math.IsNaN(f) || f*factor < 1 || f*factor >= math.MaxInt64 {
		return 0, errors.New("must be a size like 64MiB, more than 0")
	}
	return int64(f * factor), nil
}
