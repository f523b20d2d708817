package sdk

import "io"

// WholeBody fills each buffer that it is given, of most bytes.
func WholeBody(r io.Reader, most int64) (body io.Reader, read <-chan struct{}) {
	b := &wholeBody{ReadCloser: io.NopCloser(r), left: most, read: make(chan struct{})}
	return b, b.read
}
