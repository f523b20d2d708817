package adapter_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
)

func newRecorder() *httptest.ResponseRecorder { return httptest.NewRecorder() }

func withLocalAddr(ctx context.Context, ip string) context.Context {
	return context.WithValue(ctx, http.LocalAddrContextKey, &net.TCPAddr{IP: net.ParseIP(ip), Port: 18100})
}
