package adapter

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"innerd/adapter/api"
	"innerd/runs"
)

const (
	healthWait  = 250 * time.Millisecond // that /health waits for a probe of backends
	healthProbe = 10 * time.Second       // that such a probe may take
)

// healthCache keeps what backends said last, since a liveness check must not
// wait for a program to tell its version.
type healthCache struct {
	mu      sync.Mutex
	known   map[string]api.BackendHealth
	running chan struct{} // a probe is on; closed when it ends
}

// backends asks anew and gives what is known after a short wait.
func (h *healthCache) backends(ask func(context.Context) []runs.BackendInfo) map[string]api.BackendHealth {
	h.mu.Lock()
	done := h.running
	if done == nil {
		done = make(chan struct{})
		h.running = done
		go h.probe(ask, done) // ends with its context
	}
	h.mu.Unlock()
	timer := time.NewTimer(healthWait)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.known == nil {
		return map[string]api.BackendHealth{}
	}
	return h.known
}

func (h *healthCache) probe(ask func(context.Context) []runs.BackendInfo, done chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), healthProbe)
	defer cancel()
	known := map[string]api.BackendHealth{}
	defer func() {
		if v := recover(); v != nil {
			known["unknown"] = api.BackendHealth{Why: fmt.Sprint("the probe panicked: ", v)}
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.known, h.running = known, nil
		close(done)
	}()
	for _, b := range ask(ctx) {
		known[b.Name] = api.BackendHealth{Usable: b.Usable, Version: b.Version, Why: b.Why}
	}
}

// getHealth says that the server lives, from the first moment on.
func (s *Server) getHealth(c *gin.Context) error {
	out := api.Health{Status: api.StatusOK, Version: s.opt.Version, Backends: map[string]api.BackendHealth{}}
	if r := s.domain.Load(); r != nil {
		out.Backends = s.health.backends((*r).Backends)
	}
	writeJSON(c.Writer, http.StatusOK, out)
	return nil
}

// notReady says why the server takes no runs.
func (s *Server) notReady() (reasons []string) {
	if s.domain.Load() == nil {
		reasons = append(reasons, errStarting.Error())
	}
	if s.opt.Ready != nil {
		reasons = append(reasons, s.opt.Ready()...)
	}
	return reasons
}

func (s *Server) getReady(c *gin.Context) error {
	reasons := s.notReady()
	status := http.StatusOK
	if len(reasons) > 0 {
		status = http.StatusServiceUnavailable
	}
	writeJSON(c.Writer, status, api.Ready{Ready: len(reasons) == 0, Reasons: reasons})
	return nil
}

func (s *Server) getBackends(c *gin.Context) error {
	domain, err := s.runs(c.Request.Context())
	if err != nil {
		return err
	}
	list := domain.Backends(c.Request.Context())
	if list == nil {
		list = []runs.BackendInfo{}
	}
	writeJSON(c.Writer, http.StatusOK, struct {
		Backends []runs.BackendInfo `json:"backends"`
	}{list})
	return nil
}

func (s *Server) getConversations(c *gin.Context) error {
	domain, err := s.runs(c.Request.Context())
	if err != nil {
		return err
	}
	out := api.Conversations{Conversations: []api.Conversation{}}
	for _, info := range domain.Conversations(Owner(c.Request.Context())) {
		out.Conversations = append(out.Conversations, conversationOf(info))
	}
	writeJSON(c.Writer, http.StatusOK, out)
	return nil
}

func (s *Server) closeConversation(c *gin.Context, id string) error {
	domain, err := s.runs(c.Request.Context())
	if err != nil {
		return err
	}
	info, err := domain.CloseConversation(c.Request.Context(), Owner(c.Request.Context()), id)
	if err != nil {
		return err
	}
	writeJSON(c.Writer, http.StatusOK, conversationOf(info))
	return nil
}

func (s *Server) compactConversation(c *gin.Context, id string) error {
	domain, err := s.runs(c.Request.Context())
	if err != nil {
		return err
	}
	info, err := domain.CompactConversation(c.Request.Context(), Owner(c.Request.Context()), id)
	if err != nil {
		return err
	}
	writeJSON(c.Writer, http.StatusOK, conversationOf(info))
	return nil
}

func conversationOf(i runs.ConversationInfo) api.Conversation {
	return api.Conversation{ID: i.ID, ContextID: i.ContextID, Backend: i.Backend, State: i.State, LastUsed: i.LastUsed, Compacting: i.Compacting}
}
