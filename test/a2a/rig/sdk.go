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
	if l == nil {
		return
	}
	limit, write := o.BodyLimit, o.Write
	if limit == 0 {
		limit = a2a.DefaultBodyLimit
	}
	if write == 0 {
		write = a2a.DefaultWrite
	}
	g := sdk.NewGRPC(s.A2A, sdk.GRPCOptions{Owner: adapter.Owner, BodyLimit: int(limit), Write: write, Logger: o.Logger})
	g.Serve(l, api.Beside(adapter.Mount{Prefix: sdk.GRPCPath, Handler: g, Refuse: sdk.RefuseGRPC}))
	s.grpc = g
}
