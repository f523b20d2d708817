package rig

import (
	"net"

	"innerd/adapter"
	"innerd/adapter/a2a"
)

func (s *Server) listenGRPC(Options, *a2a.Options) (net.Listener, error) { return nil, nil }

func (s *Server) serveSDK(*adapter.Server, net.Listener, Options) {}
