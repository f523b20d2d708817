package rig

import (
	"net"

	"innerd/adapter"
	"innerd/adapter/a2a"
	"innerd/adapter/a2a/sdk"
)

func (s *Server) listenGRPC(o Options, opt *a2a.Options) (net.Listener, error) {
	if o.GRPC == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", o.GRPC)
	if err != nil {
		return nil, err
	}
	s.GRPC = l.Addr().String()
	opt.GRPC = s.GRPC
	return l, nil
}

func (s *Server) serveSDK(api *adapter.Server, l net.Listener, o Options) {
	s.A2A.SetLegacy(sdk.Legacy(s.A2A, adapter.Owner, a2a.DefaultHeartbeat, a2a.DefaultWrite, o.Logger))
	if l != nil {
		s.grpc = sdk.ServeGRPC(l, s.A2A, api.OwnerOf, 64<<20, o.Logger)
	}
}
