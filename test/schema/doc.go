// Package schema looks that the published documents are what the Go types say.
package schema
