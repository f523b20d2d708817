// Package apart keeps the stacks of readers small that wait for most of their
// lives.
package apart

// Do runs f on a stack of its own and waits. Encoding and decoding JSON needs a
// deep one, and so does the header of an answer; a reader that did it itself
// would keep that while it idles, and thousands do. A panic of f is one of the
// caller.
func Do(f func()) {
	done := make(chan any, 1)
	go func() { // ends with f
		defer func() { done <- recover() }()
		f()
	}()
	if v := <-done; v != nil {
		panic(v)
	}
}
