package copilot

import (
	"crypto/rand"
	"fmt"
)

// newID is a random id of a session, in the form of copilot's own. It must be
// new: a session.create with an id that is in use succeeds without a word, and
// two conversations would have one session.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
