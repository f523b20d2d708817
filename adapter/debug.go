package adapter

import (
	"net/http"
	"net/http/pprof"
	"path"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"innerd/adapter/api"
	"innerd/events/journal"
	"innerd/runs"
)

// opened reports whether a path needs no key on this server. One that leads
// out of /debug again does.
func (s *Server) opened(p string) bool {
	return openPath(p) || s.opt.OpenMetrics && p == "/metrics" ||
		s.opt.OpenDebug && strings.HasPrefix(p, "/debug/") && path.Clean(p) == p
}

// debugRoutes are those for whoever runs the server.
func (s *Server) debugRoutes(g *gin.Engine) {
	g.GET("/metrics", s.serve(s.getMetrics))
	g.GET("/debug/streams", s.serve(s.getStreams))
	if s.opt.Pprof {
		g.GET("/debug/pprof", s.serve(getProfile))
		g.GET("/debug/pprof/*profile", s.serve(getProfile))
	}
}

// getProfile is net/http/pprof without what shows the command line.
func getProfile(c *gin.Context) error {
	switch strings.TrimPrefix(c.Param("profile"), "/") {
	case "":
		c.Request.URL.Path = "/debug/pprof/" // a slash at the end is cut, and the index asks for it
		pprof.Index(c.Writer, c.Request)
	case "profile":
		pprof.Profile(c.Writer, c.Request)
	case "trace":
		pprof.Trace(c.Writer, c.Request)
	case "heap", "allocs", "goroutine", "block", "mutex", "threadcreate":
		pprof.Index(c.Writer, c.Request)
	default:
		return errNoRoute
	}
	return nil
}

// getStreams is what goes on: the caller's own streams and runs, and figures
// of the whole server that name nobody.
func (s *Server) getStreams(c *gin.Context) error {
	owner := Owner(c.Request.Context())
	streams, count := s.streams.of(owner)
	out := api.Streams{
		ActiveStreams: streams, StreamCount: count, ServerUptime: seconds(time.Since(s.started)),
		Backends: map[string]api.BackendDebug{}, Runs: map[string]api.RunDebug{},
	}
	if r := s.domain.Load(); r != nil {
		for _, b := range (*r).Backends(c.Request.Context()) {
			d := api.BackendDebug{Breaker: api.Breaker(b.Breaker), UnknownEvents: b.Unknown}
			if d.UnknownEvents == nil {
				d.UnknownEvents = map[string]int64{}
			}
			out.Backends[b.Name] = d
		}
	}
	if src := s.sources.Load(); src != nil {
		src.describe(&out, owner)
	}
	writeJSON(c.Writer, http.StatusOK, out)
	return nil
}

func (src *Sources) describe(out *api.Streams, owner string) {
	if src.Live != nil {
		for _, r := range src.Live(owner) {
			out.Runs[r.ID] = api.RunDebug{
				Backend: r.Backend, ConversationID: r.ConversationID, State: r.State, ElapsedS: seconds(time.Since(r.Accepted)),
				LastEventID: r.LastEventID, Readers: r.Readers, Lag: r.Lag, Pending: r.Pending,
			}
		}
	}
	if src.Runs != nil {
		out.Pool = poolOf(src.Runs(), out.Backends)
	}
	if src.Log != nil {
		out.Log = logOf(src.Log())
	}
}

// poolOf sums up the agents of a server, and adds to backends what is theirs.
func poolOf(st runs.Stats, backends map[string]api.BackendDebug) *api.PoolDebug {
	p := &api.PoolDebug{Warm: st.Warm, WarmLimit: st.MaxWarm, Starting: st.Starting, StartingLimit: st.MaxStarting}
	for name, b := range st.Backends {
		p.Queued += b.Queued
		d, known := backends[name]
		if !known {
			continue
		}
		d.Runs = map[string]int{runs.StageQueued: b.Queued, runs.StageWorking: b.Working, runs.StageWaiting: b.Waiting}
		d.Conversations = b.Conversations
		backends[name] = d
	}
	return p
}

func logOf(st journal.Stats) *api.LogDebug {
	return &api.LogDebug{
		Runs: st.Runs, Live: st.Live, Readers: st.Readers, Lag: st.Lag, MemoryBytes: st.MemoryBytes, DiskBytes: st.DiskBytes,
		UnwrittenBytes: st.Unwritten, WriteErrors: st.WriteErrors, SyncErrors: st.SyncErrors,
		Damaged: st.Damaged, Dropped: st.Dropped, Waiting: st.Full, DiskFull: st.DiskFull, MemoryOnly: st.MemoryOnly,
	}
}
