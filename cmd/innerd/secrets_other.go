//go:build !linux

package main

// shield leaves the environment alone: here it can't be read in /proc.
func shield([]string) (secrets, error) { return nil, nil }
