//go:build linux

package server

// URL is where the server listens, since its last Start.
func (s *Server) URL() string { return s.url }

// Key is what hosts of the server send.
func (s *Server) Key() string { return HostKey }
