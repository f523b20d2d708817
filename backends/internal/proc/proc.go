// Package proc runs one child process of a backend: its start, its group, its
// mark, its lines, its end.
package proc
