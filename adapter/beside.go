package adapter

import (
	"io"
	"net/http"
	"time"
)

// packed is up to how many bytes a compressed body cannot be a large one: the
// usual methods make a thousandth of a text at best.
const packed = light / 1024

// Beside is the handler of a listener of its own, which serves gRPC and whose
// callers cannot be pages in a browser: keys are asked for, their rate is kept,
// bodies have their pace and take their turns as everywhere, and names and
// origins are not looked at. The mount has a Refuse, and no open requests.
func (s *Server) Beside(m Mount) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		r.Body = &pacedBody{ReadCloser: &restedBody{r.Body, rc}, rc: rc, progress: s.opt.ReadProgress}
		r, leave := s.unpacked(r)
		defer leave()
		r, err := s.authenticate(r)
		if err == nil {
			err = s.checkRate(r)
		}
		if err != nil {
			status, _ := statusOf(err)
			m.Refuse(w, r, status, err.Error())
			return
		}
		s.serveCounted(&m, w, r)
	})
}

// unpacked is weighed for a body that may be compressed: what it is then is not
// known before it is in memory.
func (s *Server) unpacked(r *http.Request) (_ *http.Request, leave func()) {
	how := r.Header.Get("Grpc-Encoding")
	if how == "" || how == "identity" {
		return s.weighed(r)
	}
	r.ContentLength = -1
	r, leave = s.weighed(r)
	if b, ok := r.Body.(*weighedBody); ok {
		b.free, b.packed = packed, true
	}
	return r, leave
}

// restedBody has no deadline while nobody reads it: one of HTTP/2 that passes
// then, when the body waits for its turn, is the end of it.
type restedBody struct {
	io.ReadCloser
	rc *http.ResponseController
}

// Read implements io.Reader.
func (b *restedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	_ = b.rc.SetReadDeadline(time.Time{})
	return n, err
}
