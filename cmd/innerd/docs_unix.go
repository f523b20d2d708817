//go:build linux || darwin

package main

import "innerd/adapter"

// metricsTable is the metrics of the server as Markdown.
func metricsTable() string { return adapter.MetricsTable() }
