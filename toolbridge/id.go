package toolbridge

import (
	"crypto/rand"

	"github.com/oklog/ulid/v2"
)

// Ids of requests never repeat on a server: a ULID holds the time and 80
// random bits, so that they do not repeat across restarts either.

func newCallID() string    { return "tc_" + newULID() }
func newRequestID() string { return "rq_" + newULID() }

func newULID() string { return ulid.MustNew(ulid.Now(), rand.Reader).String() }
