// Package apart keeps the stacks of readers small that wait for most of their
// lives.
package apart

import (
	"fmt"
	"net/http"
	"runtime/debug"
)

// Do runs f on a stack of its own and waits. Encoding and decoding JSON needs a
// deep one, and so does the header of an answer; a reader that did it itself
// would keep that while it idles, and thousands do. A panic of f is one of the
// caller, with the stack on which it was; http.ErrAbortHandler stays itself.
func Do(f func()) {
	done := make(chan any, 1)
	go func() { // ends with f
		defer func() {
			v := recover()
			if v != nil && v != http.ErrAbortHandler {
				v = fmt.Sprintf("%v\n%s", v, debug.Stack())
			}
			done <- v
		}()
		f()
	}()
	if v := <-done; v != nil {
		panic(v)
	}
}
