package adapter

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"innerd/adapter/api"
	"innerd/backends"
	"innerd/events/journal"
	"innerd/telemetry"
)

// postStream starts a run, or finds the one of its task id, and streams it.
func (s *Server) postStream(c *gin.Context) error {
	leave, err := s.hold(c.Request)
	if err != nil {
		return err
	}
	defer leave()
	run, created, req, err := s.startRun(c)
	if err != nil {
		return err
	}
	defer run.Attach()()
	var after int64
	if !created {
		// A host that comes back says how far it was; one that does not, or
		// says something odd, gets everything.
		after, _ = eventID(c.GetHeader("Last-Event-ID"))
	}
	return s.serveStream(c, run, after, journal.Filter(req.Metadata.Filter()))
}

// postSend starts a run and answers when it has ended.
func (s *Server) postSend(c *gin.Context) error {
	leave, err := s.hold(c.Request)
	if err != nil {
		return err
	}
	defer leave()
	run, _, _, err := s.startRun(c)
	if err != nil {
		return err
	}
	defer run.Attach()()
	select {
	case <-run.Done():
	case <-c.Request.Context().Done():
		return c.Request.Context().Err()
	case <-s.ctx.Done():
		panic(http.ErrAbortHandler)
	}
	return s.answerDone(c, run, false)
}

// startRun reads the request and starts its run.
func (s *Server) startRun(c *gin.Context) (Run, bool, *api.Request, error) {
	body, err := s.readBody(c.Writer, c.Request)
	if err != nil {
		return nil, false, nil, err
	}
	req, spec, err := decodeSpec(body)
	if err != nil {
		return nil, false, nil, err
	}
	domain, err := s.runs(c.Request.Context())
	if err != nil {
		return nil, false, nil, err
	}
	spec.Trace = telemetry.ParseLink(c.GetHeader("traceparent"), c.GetHeader("tracestate"))
	run, created, err := domain.Start(c.Request.Context(), Owner(c.Request.Context()), spec)
	PutDown(c.Request.Context())
	return run, created, req, err
}

// badBody tells a field that is wrong from a body that is not JSON.
func badBody(err error) error {
	if as[*api.FieldError](err) {
		return err
	}
	return &bodyError{err}
}

// eventID reads the id after which a reader wants to go on; "" is 0.
func eventID(s string) (int64, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return 0, nil
	}
	id, err := strconv.ParseInt(s, 10, 64)
	if err != nil || id < 0 {
		return 0, &backends.FieldError{Field: "Last-Event-ID or after", Reason: strconv.Quote(s) + " is not the id of an event"}
	}
	return id, nil
}
