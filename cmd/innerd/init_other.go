//go:build !linux

package main

import "github.com/spf13/cobra"

// imageCommands are those of process 1 of a container, which is Linux's.
func imageCommands(*app) []*cobra.Command { return nil }
