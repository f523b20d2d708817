// Package soak runs the released innerd for long and under load, and looks at
// it from outside: what every reader got against the journal, and what of the
// machine the process holds. The short forms are tests as any other; the long
// ones are `make soak`, `make load` and `make recovery`, whose figures stand in
// docs/reliability.md.
package soak
