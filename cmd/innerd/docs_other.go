//go:build !linux && !darwin

package main

// metricsTable is of a server, which this platform does not have.
func metricsTable() string { return "" }
