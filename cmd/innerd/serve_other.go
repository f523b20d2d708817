//go:build !linux && !darwin

package main

import (
	"context"
	"errors"
	"runtime"

	"github.com/spf13/cobra"

	"innerd/host"
)

var errNoServe = exitError{exitUnavailable, errors.New("innerd cannot serve on " + runtime.GOOS + "; run it in a sandbox and name it with --server")}

func (a *app) serve(*cobra.Command) error { return errNoServe }

func (a *app) startPrivate(context.Context, *runFlags) (*host.Client, func(), error) {
	return nil, nil, errNoServe
}

func hiddenCommands(*app) []*cobra.Command { return nil }

func (a *app) doctorCmd() *cobra.Command {
	return &cobra.Command{Use: "doctor", Short: "Say what works here", RunE: func(*cobra.Command, []string) error { return errNoServe }}
}

func (a *app) loginCmd() *cobra.Command {
	return &cobra.Command{
		Use: "login BACKEND", Short: "Log an agent in, by its vendor's own login", Args: cobra.ExactArgs(1),
		RunE: func(*cobra.Command, []string) error { return errNoServe },
	}
}
