//go:build linux || darwin

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"innerd/adapter"
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
// it is sent, not by a run that lacks it.
func parseLate(raw []byte) (*lateConfig, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	c := &lateConfig{}
	if err := d.Decode(c); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one value")
	}
	if len(adapter.ParseKeys(strings.Join(c.Keys, ","))) == 0 {
		return nil, errors.New("keys: at least one is needed, or nobody could call this server")
	}
	for name := range c.Credentials {
		if !slices.Contains(backendNames, name) || name == "simulate" {
			return nil, fmt.Errorf("credentials: there is no agent %q", name)
		}
	}
	for name := range c.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return nil, fmt.Errorf("env: %q cannot be a variable", name)
		}
	}
	if c.Workspace != "" && !filepath.IsAbs(c.Workspace) {
		return nil, fmt.Errorf("workspace: %q is not an absolute path", c.Workspace)
	}
	return c, nil
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
