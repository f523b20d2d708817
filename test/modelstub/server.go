package modelstub

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
)

// Server is a provider with any number of scenarios.
type Server struct {
	ln      net.Listener
	http    http.Server
	closing chan struct{} // closed by Close: ends holds and hangs
	once    sync.Once
	wg      sync.WaitGroup // the accept loop and every handler

	mu        sync.Mutex
	scenarios map[string]*Scenario
	closed    bool // no handler begins any more
}

// New starts a server on a free port of 127.0.0.1. Like httptest.NewServer it
// panics where it can't.
func New() *Server {
	s, err := Listen("127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	return s
}

// Listen starts a server on an address.
func Listen(addr string) (*Server, error) {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("modelstub: %w", err)
	}
	s := &Server{ln: ln, closing: make(chan struct{}), scenarios: map[string]*Scenario{}}
	s.http.Handler = s
	s.wg.Go(func() { _ = s.http.Serve(ln) }) // ends when Close closes the listener
	return s, nil
}

// URL is the address of the server, without a path.
func (s *Server) URL() string { return "http://" + s.ln.Addr().String() }

// Scenario adds a script.
func (s *Server) Scenario(turns ...Turn) *Scenario {
	s.mu.Lock()
	defer s.mu.Unlock()
	sc := newScenario(s, fmt.Sprintf("s%d", len(s.scenarios)+1), turns)
	s.scenarios[sc.name] = sc
	return sc
}

// Close cuts what is still being answered and waits for the handlers.
func (s *Server) Close() {
	s.once.Do(func() {
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
		close(s.closing)
		_ = s.http.Close()
	})
	s.wg.Wait()
}

// dialects are the APIs by the path below a scenario, which may have a /v1 in
// front: some agents want it in the base URL, some add it.
var dialects = map[string]dialect{
	"/messages":         anthropic{},
	"/responses":        responses{},
	"/chat/completions": chat{},
}

// begin counts a handler, unless Close waits for those that there are.
func (s *Server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.wg.Add(1)
	}
	return !s.closed
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.begin() {
		return // its connection is closed
	}
	defer s.wg.Done()
	name, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	s.mu.Lock()
	sc := s.scenarios[name]
	s.mu.Unlock()
	if sc == nil {
		http.NotFound(w, r)
		return
	}
	if rest, ok := strings.CutPrefix(path, "stub/"); ok {
		sc.control(w, r, rest)
		return
	}
	sc.enter()
	defer sc.leave()
	body, err := readBody(r)
	if errors.Is(err, errEncoding) {
		http.Error(w, err.Error(), http.StatusUnsupportedMediaType)
		return
	}
	if err != nil {
		return // the client has gone
	}
	req := &Request{
		Kind: KindOther, Method: r.Method, Header: r.Header.Clone(), Body: body,
		Path: strings.TrimPrefix(r.URL.RequestURI(), "/"+name),
	}
	x := &exchange{sc: sc, req: req, w: w, r: r}
	x.serve("/" + path)
}

var errEncoding = errors.New("modelstub: the body's Content-Encoding is not known here, or is not what the body has")

// readBody reads what the client said, unpacked.
func readBody(r *http.Request) ([]byte, error) {
	switch r.Header.Get("Content-Encoding") {
	case "", "identity":
		return io.ReadAll(r.Body)
	case "gzip":
		zr, err := gzip.NewReader(r.Body)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errEncoding, err)
		}
		return io.ReadAll(zr)
	}
	return nil, errEncoding
}
