package adapter

import (
	"errors"
	"net/http"
	"runtime/debug"
	"strings"

	"github.com/gin-gonic/gin"
)

// handler is an endpoint. The error it returns becomes the answer.
type handler func(*gin.Context) error

func (s *Server) routes() *gin.Engine {
	gin.SetMode(gin.ReleaseMode) // the default one prints routes on stdout
	g := gin.New()
	g.RedirectTrailingSlash, g.RedirectFixedPath = false, false
	g.HandleMethodNotAllowed = true
	g.ForwardedByClientIP = false
	g.Use(s.counted, s.recovered)
	g.NoRoute(s.serve(func(*gin.Context) error { return errNoRoute }))
	g.NoMethod(s.serve(noMethod))

	for path, h := range map[string]handler{
		"/health":                      s.getHealth,
		"/ready":                       s.getReady,
		"/.well-known/agent-card.json": s.getCard,
	} {
		g.GET(path, s.serve(h))
		g.HEAD(path, s.serve(h))
	}
	for path, d := range documents {
		g.GET(path, s.serve(getDocument(d)))
		g.HEAD(path, s.serve(getDocument(d)))
	}
	g.POST(`/message\:stream`, s.serve(s.postStream))
	g.POST(`/message\:send`, s.serve(s.postSend))

	g.GET("/tasks", s.serve(s.getTasks))
	g.GET("/tasks/:id", s.serve(s.getTask))
	g.DELETE("/tasks/:id", s.serve(s.deleteTask))
	g.POST("/tasks/:id", s.serve(s.postTask))
	g.GET("/tasks/:id/events", s.serve(s.getEvents))
	g.GET("/tasks/:id/blobs/:sha", s.serve(s.getBlob))
	g.POST("/tasks/:id/requests/:request", s.serve(s.postAnswer))
	g.POST("/tools/:id/result", s.serve(s.postToolResult))

	g.GET("/conversations", s.serve(s.getConversations))
	g.POST("/conversations/:id", s.serve(s.postConversation))
	g.GET("/backends", s.serve(s.getBackends))
	s.debugRoutes(g)
	return g
}

func (s *Server) serve(h handler) gin.HandlerFunc {
	return func(c *gin.Context) {
		if err := h(c); err != nil {
			s.fail(c.Writer, c.Request, err)
		}
	}
}

// taskVerbs are what POST /tasks/{id}:verb can be, conversationVerbs those of
// /conversations/{id}:verb: a path with a verb is one path to the router.
var (
	taskVerbs = map[string]func(*Server, *gin.Context, string) error{
		"cancel": (*Server).cancelTask,
		"reply":  (*Server).replyTask,
		"steer":  (*Server).steerTask,
	}
	conversationVerbs = map[string]func(*Server, *gin.Context, string) error{
		"close":   (*Server).closeConversation,
		"compact": (*Server).compactConversation,
	}
)

func (s *Server) postTask(c *gin.Context) error {
	id, verb := splitVerb(c.Param("id"))
	if verb == "" {
		return errNoMethod // GET and DELETE know the path
	}
	if do := taskVerbs[verb]; do != nil {
		return do(s, c, id)
	}
	return errNoRoute
}

func (s *Server) postConversation(c *gin.Context) error {
	id, verb := splitVerb(c.Param("id"))
	if do := conversationVerbs[verb]; do != nil {
		return do(s, c, id)
	}
	return errNoRoute
}

// noMethod is a method that a path does not know. One with a verb in it is a
// path only if the verb is one.
func noMethod(c *gin.Context) error {
	if rest, ok := strings.CutPrefix(c.Request.URL.Path, "/conversations/"); ok {
		if _, verb := splitVerb(rest); conversationVerbs[verb] == nil {
			return errNoRoute
		}
	}
	return errNoMethod
}

// splitVerb cuts at the last colon.
func splitVerb(s string) (id, verb string) {
	if i := strings.LastIndexByte(s, ':'); i >= 0 {
		return s[:i], s[i+1:]
	}
	return s, ""
}

// recovered answers a panic with 500, or cuts an answer that has begun, and
// leaves the server as it was.
func (s *Server) recovered(c *gin.Context) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			panic(http.ErrAbortHandler)
		}
		s.log.Error("panic in a handler", "method", c.Request.Method, "path", c.Request.URL.Path, "panic", v, "stack", string(debug.Stack()))
		if c.Writer.Written() {
			panic(http.ErrAbortHandler)
		}
		s.fail(c.Writer, c.Request, errPanic)
	}()
	c.Next()
}
