//go:build linux || darwin

package main

import (
	"crypto/subtle"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"innerd/adapter/api"
)

// front is the handler of the listener: what stands behind it changes when a
// server has been configured. Safe for concurrent use.
type front struct {
	now  atomic.Pointer[http.Handler]
	late atomic.Bool // it was configured by POST /init
}

func (f *front) set(h http.Handler) { f.now.Store(&h) }

// ServeHTTP implements http.Handler.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.late.Load() && r.URL.Path == "/init" {
		refuse(w, http.StatusConflict, api.ErrConflict, configured)
		return
	}
	(*f.now.Load()).ServeHTTP(w, r)
}

// initTime is how long a body may take.
const initTime = 30 * time.Second

// gate serves a server that waits for its configuration: it lives, it is not
// ready, and it takes one POST /init.
type gate struct {
	key string // what /init asks for; "": it is taken only where inside serves
	log *slog.Logger

	passed atomic.Bool
	got    chan accepted // one
}

const configured = "this server has been configured"

type accepted struct {
	raw []byte
	cfg *lateConfig
}

func newGate(key string, log *slog.Logger) *gate {
	return &gate{key: key, log: log, got: make(chan accepted, 1)}
}

// outside is the gate for the network, inside for who may open its socket.
func (g *gate) outside() http.Handler { return g.handler(false) }
func (g *gate) inside() http.Handler  { return g.handler(true) }

func (g *gate) handler(inside bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.serve(w, r, inside) })
}

func (g *gate) serve(w http.ResponseWriter, r *http.Request, inside bool) {
	// Also of a body that nobody reads: net/http does, before it answers.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(initTime))
	w.Header().Set("A2A-Version", "0.3.0")
	switch r.URL.Path {
	case "/health":
		writeJSON(w, http.StatusOK, map[string]any{"status": "ok", "version": versionString(), "backends": map[string]any{}})
	case "/ready":
		writeJSON(w, http.StatusServiceUnavailable, api.Ready{Reasons: []string{"waiting for POST /init"}})
	case "/init":
		g.init(w, r, inside)
	default:
		refuse(w, http.StatusUnauthorized, api.ErrUnauthorized, "this server waits for POST /init and has no keys yet")
	}
}

func (g *gate) init(w http.ResponseWriter, r *http.Request, inside bool) {
	switch {
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		refuse(w, http.StatusMethodNotAllowed, "unsupported", "send it with POST")
		return
	case !g.allowed(r, inside):
		refuse(w, http.StatusUnauthorized, api.ErrUnauthorized, "the bootstrap key is missing or wrong")
		return
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxLate))
	if err != nil {
		refuse(w, http.StatusRequestEntityTooLarge, api.ErrTooLarge, "the body cannot be read, or is over 1 MiB")
		return
	}
	cfg, err := parseLate(raw)
	if err != nil {
		refuse(w, http.StatusBadRequest, api.ErrInvalidRequest, err.Error())
		return
	}
	if !g.passed.CompareAndSwap(false, true) {
		refuse(w, http.StatusConflict, api.ErrConflict, configured)
		return
	}
	answer := map[string]any{"status": "ok"}
	if !cfg.Now.IsZero() {
		skew := time.Since(cfg.Now)
		answer["clock_skew_ms"] = skew.Milliseconds()
		if skew.Abs() > 30*time.Second {
			g.log.Warn("the clock of this machine is not the caller's", "skew", skew.String())
		}
	}
	g.got <- accepted{raw: raw, cfg: cfg}
	writeJSON(w, http.StatusOK, answer)
}

// allowed compares in constant time.
func (g *gate) allowed(r *http.Request, inside bool) bool {
	if g.key == "" {
		return inside
	}
	key, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && subtle.ConstantTimeCompare([]byte(strings.TrimSpace(key)), []byte(g.key)) == 1
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, status int, class, detail string) {
	writeJSON(w, status, map[string]string{"detail": detail, "error_type": class})
}
