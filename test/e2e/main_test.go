//go:build linux

package e2e_test

import (
	"os"
	"testing"

	outside "innerd/test/server"
)

// innerd is the innerd under test, as it is released.
var innerd string

func TestMain(m *testing.M) { os.Exit(outside.Main(m, &innerd)) }

// long reports whether the long forms of tests are asked for.
func long() bool { return outside.Long() }

// key is what tests call with.
const key = outside.HostKey

// soon is how long a test waits for what should come at once, on a busy machine.
const soon = outside.Soon

// server is one that tests start, stop and read as they like.
type server struct{ *outside.Server }

// newServer makes a server and does not start it.
func newServer(t testing.TB) *server { return &server{outside.New(t, innerd)} }

// of is the server as another test sees it, which neither starts nor stops it.
func (s *server) of(t testing.TB) *server { return &server{s.For(t)} }

// serve makes a server and starts it.
func serve(t testing.TB, args ...string) *server {
	t.Helper()
	s := newServer(t)
	s.Args = append(s.Args, args...)
	s.Start()
	return s
}
