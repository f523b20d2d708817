package sdk_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"innerd/adapter/a2a/sdk"
)

// A body that comes a byte at a time fills the buffers that are kept of it.
func TestBodyFillsBuffers(t *testing.T) {
	body, read := sdk.WholeBody(iotest.OneByteReader(strings.NewReader(strings.Repeat("x", 25))), 25)
	p := make([]byte, 10)
	for _, want := range []int{10, 10, 5} {
		n, err := body.Read(p)
		if n != want || err != nil && (n == 10 || !errors.Is(err, io.EOF)) {
			t.Fatalf("%d bytes, %v; want %d", n, err, want)
		}
	}
	select {
	case <-read:
	default:
		t.Error("its end is not told")
	}
}
