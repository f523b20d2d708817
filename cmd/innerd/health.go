package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"
)

// healthCmd is the probe of container images, which need no other program for it.
func (a *app) healthCmd() *cobra.Command {
	var ready bool
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Say whether a server here is alive, as a probe of a container does",
		Long: `Ask the server of this machine GET /health, with --ready GET /ready, and exit
with 0 if it says yes, with 3 else. It needs no key.`,
		Example: "  innerd health\n  innerd health --ready --port 18100",
	}
	addSettings(cmd, listenSettings())
	cmd.Flags().BoolVar(&ready, "ready", false, "ask whether it takes runs, too")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		set, err := resolve(cmd, listenSettings(), a.getenv, a.warn)
		if err != nil {
			return err
		}
		return a.health(cmd, set, ready)
	}
	return cmd
}

// listenSettings are those of serve that say where it listens.
func listenSettings() []setting {
	var out []setting
	for _, s := range serveSettings() {
		if s.flag == "listen" || s.flag == "host" || s.flag == "port" {
			out = append(out, s)
		}
	}
	return out
}

func (a *app) health(cmd *cobra.Command, set *resolved, ready bool) error {
	name, port, err := net.SplitHostPort(listenAddress(set))
	if err != nil {
		return usageError{err}
	}
	if ip := net.ParseIP(name); name == "" || ip != nil && ip.IsUnspecified() {
		name = "127.0.0.1"
	}
	path := "/health"
	if ready {
		path = "/ready"
	}
	url := "http://" + net.JoinHostPort(name, port) + path
	req, err := http.NewRequestWithContext(cmd.Context(), http.MethodGet, url, nil)
	if err != nil {
		return usageError{err}
	}
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}} // no proxy of the environment
	resp, err := client.Do(req)
	if err != nil {
		return exitError{exitUnavailable, fmt.Errorf("no answer: %w", err)}
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return exitError{exitUnavailable, errors.New(path + " says " + resp.Status)}
	}
	return nil
}
