package sdk

import "io"

// WholeBody fills each buffer that it is given.
func WholeBody(r io.Reader) (body io.Reader, read <-chan struct{}) {
	b := &wholeBody{ReadCloser: io.NopCloser(r), read: make(chan struct{})}
	return b, b.read
}
