//go:build linux || darwin

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"innerd/adapter"
	"innerd/runs/redact"
)

// lateConfig is what POST /init tells a server that was started before anybody
// knew whose it would be. It stands on no disk.
type lateConfig struct {
	Keys        []string                  `json:"keys"` // secret or name:secret
	Env         map[string]string         `json:"env"`  // of agents
	Credentials map[string]lateCredential `json:"credentials"`
	Workspace   string                    `json:"workspace"`
	Now         time.Time                 `json:"now"` // the caller's clock
}

type lateCredential struct {
	APIKey   string `json:"api_key"`
	BaseURL  string `json:"base_url"`
	Model    string `json:"model"`
	Provider string `json:"provider"`
}

// maxLate is the most that a late configuration may be, in bytes.
const maxLate = 1 << 20

// parseLate reads a late configuration strictly: a wrong field is found when
// it is sent, not by a run that lacks it, since it can be sent once.
func parseLate(raw []byte) (*lateConfig, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	c := &lateConfig{}
	if err := d.Decode(c); err != nil {
		return nil, plainly(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one value")
	}
	return c, c.check()
}

// keptLate reads one that was accepted before: what it names may have gone since.
func keptLate(raw []byte) (*lateConfig, error) {
	c := &lateConfig{}
	return c, json.Unmarshal(raw, c)
}

// plainly says what is wrong with a body without the words of Go.
func plainly(err error) error {
	var wrong *json.UnmarshalTypeError
	var when *time.ParseError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the body is empty, or ends too soon")
	case errors.As(err, &wrong) && wrong.Field == "":
		return errors.New("the body must be a JSON object")
	case errors.As(err, &wrong):
		return fmt.Errorf("%s: it cannot be a %s", wrong.Field, wrong.Value)
	case errors.As(err, &when):
		return errors.New("now: must be a time like 2026-01-31T12:00:00Z")
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}

func (c *lateConfig) check() error {
	for i, key := range c.Keys {
		if err := adapter.CheckKey(key); err != nil || strings.Contains(key, ",") {
			return errors.Join(fmt.Errorf("keys[%d]: must be secret or name:secret, without a comma", i), err)
		}
	}
	if len(adapter.ParseKeys(strings.Join(c.Keys, ","))) == 0 {
		return errors.New("keys: at least one is needed, or nobody could call this server")
	}
	for name, cr := range c.Credentials {
		if err := cr.check(name); err != nil {
			return fmt.Errorf("credentials.%s: %w", name, err)
		}
	}
	for name, v := range c.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(v, "\x00") {
			return fmt.Errorf("env: %q cannot be a variable, or has a NUL byte in it", name)
		}
	}
	if c.Workspace == "" {
		return nil
	}
	if !filepath.IsAbs(c.Workspace) {
		return fmt.Errorf("workspace: %q is not an absolute path", c.Workspace)
	}
	if info, err := os.Stat(c.Workspace); err != nil || !info.IsDir() {
		return fmt.Errorf("workspace: %q is not a directory here", c.Workspace)
	}
	return nil
}

func (cr lateCredential) check(agent string) error {
	if !slices.Contains(backendNames, agent) || agent == "simulate" {
		return fmt.Errorf("there is no agent %q", agent)
	}
	for _, v := range []string{cr.APIKey, cr.BaseURL, cr.Model, cr.Provider} {
		if strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return errors.New("a value has a control character in it")
		}
	}
	if u, err := url.Parse(cr.BaseURL); cr.BaseURL != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		return errors.New("base_url must be an http or https URL")
	}
	return nil
}

// secrets are the keys and credentials of c.
func (c *lateConfig) secrets() []string {
	var out []string
	for _, k := range c.Keys {
		out = append(out, adapter.Secret(k))
	}
	for _, cr := range c.Credentials {
		out = append(out, cr.APIKey)
	}
	for name, v := range c.Env {
		if redact.SecretName(name) {
			out = append(out, v)
		}
	}
	return out
}

// getenv is the environment as it is with the credentials of c.
func (c *lateConfig) getenv(under func(string) string) func(string) string {
	vars := map[string]string{}
	for name, cr := range c.Credentials {
		prefix := "INNERD_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_")) + "_"
		for suffix, v := range map[string]string{"API_KEY": cr.APIKey, "BASE_URL": cr.BaseURL, "MODEL": cr.Model, "PROVIDER": cr.Provider} {
			if v != "" {
				vars[prefix+suffix] = v
			}
		}
	}
	return func(name string) string {
		if v, ok := vars[name]; ok {
			return v
		}
		return under(name)
	}
}
