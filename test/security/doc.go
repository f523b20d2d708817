// Package security looks at innerd from outside, as those do who must not get
// in: what docs/security.md promises is tried here, or in the test that it
// names.
package security
