//go:build linux || darwin

package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"innerd/host"
)

func (a *app) serve(*cobra.Command) error { return errors.New("not yet") }

func (a *app) startPrivate(context.Context, *runFlags) (*host.Client, func(), error) {
	return nil, nil, errors.New("not yet")
}

func hiddenCommands(*app) []*cobra.Command { return nil }

func (a *app) doctorCmd() *cobra.Command {
	return &cobra.Command{Use: "doctor", Short: "Say what works here", RunE: func(*cobra.Command, []string) error { return errors.New("not yet") }}
}
