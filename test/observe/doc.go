// Package observe looks at what a server shows to those who run it: its
// metrics, the traces that it sends to a collector, its own log; and at the
// dashboard and the alert rules in deploy.
package observe
