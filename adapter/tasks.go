package adapter

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"

	"github.com/gin-gonic/gin"

	"innerd/adapter/api"
	"innerd/backends"
	"innerd/runs"
	"innerd/runs/history"
	"innerd/toolbridge"
)

const maxPage = 100

// findRun is the caller's run of an id.
func (s *Server) findRun(c *gin.Context, id string) (Run, error) {
	domain, err := s.runs(c.Request.Context())
	if err != nil {
		return nil, err
	}
	return domain.Get(Owner(c.Request.Context()), id)
}

func (s *Server) getTask(c *gin.Context) error {
	run, err := s.findRun(c, c.Param("id"))
	if err != nil {
		return err
	}
	return s.answerRead(c, run)
}

func (s *Server) getTasks(c *gin.Context) error {
	q, err := taskQuery(c)
	if err != nil {
		return err
	}
	domain, err := s.runs(c.Request.Context())
	if err != nil {
		return err
	}
	list, next, err := domain.List(Owner(c.Request.Context()), q)
	if err != nil {
		return err
	}
	out := api.Tasks{Tasks: make([]api.Task, 0, len(list)), NextPageToken: next}
	for _, t := range list {
		out.Tasks = append(out.Tasks, taskOf(t))
	}
	writeJSON(c.Writer, http.StatusOK, out)
	return nil
}

func taskQuery(c *gin.Context) (runs.Query, error) {
	q := runs.Query{ContextID: c.Query("context_id"), State: c.Query("state"), PageToken: c.Query("page_token")}
	states := []string{
		api.StateSubmitted, api.StateWorking, api.StateInputRequired,
		api.StateCompleted, api.StateFailed, api.StateCanceled,
	}
	if q.State != "" && !slices.Contains(states, q.State) {
		return q, &backends.FieldError{Field: "state", Reason: fmt.Sprintf("%q is none of %v", q.State, states)}
	}
	if size := c.Query("page_size"); size != "" {
		n, err := strconv.Atoi(size)
		if err != nil || n < 1 || n > maxPage {
			return q, &backends.FieldError{Field: "page_size", Reason: fmt.Sprintf("%q is not a number from 1 to %d", size, maxPage)}
		}
		q.PageSize = n
	}
	return q, nil
}

func (s *Server) deleteTask(c *gin.Context) error {
	domain, err := s.runs(c.Request.Context())
	if err != nil {
		return err
	}
	if err := domain.Delete(Owner(c.Request.Context()), c.Param("id")); err != nil {
		return err
	}
	c.Writer.WriteHeader(http.StatusNoContent)
	return nil
}

// getEvents streams a run to a reader that says how far it was. The header
// counts more than the query: a reader that reconnects by itself repeats its
// first URL and tells where it is in the header.
func (s *Server) getEvents(c *gin.Context) error {
	run, err := s.findRun(c, c.Param("id"))
	if err != nil {
		return err
	}
	place := c.GetHeader("Last-Event-ID")
	if place == "" {
		place = c.Query("after")
	}
	after, err := eventID(place)
	if err != nil {
		return err
	}
	if _, ended := run.Log().Ended(); ended && after == run.Log().Last() {
		c.Writer.WriteHeader(http.StatusNoContent)
		return nil
	}
	defer run.Attach()() // also while it waits for its place: a run is not left because the server is full
	leave, err := s.hold(c.Request)
	if err != nil {
		return err
	}
	defer leave()
	return s.serveStream(c, run, after, nil)
}

func (s *Server) cancelTask(c *gin.Context, id string) error {
	var body api.Cancel
	if err := s.decode(c, &body); err != nil {
		return err
	}
	run, err := s.findRun(c, id)
	if err != nil {
		return err
	}
	ended, err := run.Cancel(c.Request.Context(), body.Reason)
	if err != nil {
		return err
	}
	return s.answerDone(c, run, !ended)
}

func (s *Server) replyTask(c *gin.Context, id string) error {
	var body api.Reply
	if err := s.decode(c, &body); err != nil {
		return err
	}
	domain, err := s.runs(c.Request.Context())
	if err != nil {
		return err
	}
	run, err := domain.ReplyText(Owner(c.Request.Context()), id, body.RequestID, body.Text, body.Metadata)
	if err != nil {
		return err
	}
	return s.answerDone(c, run, false)
}

func (s *Server) postAnswer(c *gin.Context) error {
	var body api.Answer
	if err := s.decode(c, &body); err != nil {
		return err
	}
	domain, err := s.runs(c.Request.Context())
	if err != nil {
		return err
	}
	run, err := domain.Answer(Owner(c.Request.Context()), c.Param("id"), c.Param("request"), toolbridge.Reply{
		Option: body.Option, Message: body.Message, Value: body.Value, Remember: body.Remember,
	})
	if err != nil {
		return err
	}
	return s.answerDone(c, run, false)
}

// steerTask gives a running turn more input.
func (s *Server) steerTask(c *gin.Context, id string) error {
	if _, err := s.findRun(c, id); err != nil {
		return err // before its body is looked at
	}
	var body api.Steer
	if err := s.decode(c, &body); err != nil {
		return err
	}
	domain, err := s.runs(c.Request.Context())
	if err != nil {
		return err
	}
	var msgs []history.Message
	for _, m := range body.Messages {
		msgs = append(msgs, messageOf(m))
	}
	run, err := domain.Steer(c.Request.Context(), Owner(c.Request.Context()), id, msgs)
	if err != nil {
		return err
	}
	return s.answerDone(c, run, false)
}

// getBlob sends a value that was too long for its event.
func (s *Server) getBlob(c *gin.Context) error {
	run, err := s.findRun(c, c.Param("id"))
	if err != nil {
		return err
	}
	r, size, err := run.Log().Blob(c.Param("sha"))
	if err != nil {
		return fmt.Errorf("%w: %v", errNoBlob, err)
	}
	defer func() { _ = r.Close() }()
	h := c.Writer.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Length", strconv.FormatInt(size, 10))
	c.Writer.WriteHeader(http.StatusOK)
	out := newPieceWriter(c.Writer, c.Request, s.opt.WriteProgress, nil)
	defer out.close()
	if _, err := io.Copy(writerFunc(out.write), r); err != nil {
		panic(http.ErrAbortHandler) // the length was promised
	}
	return nil
}

type writerFunc func([]byte) error

func (f writerFunc) Write(p []byte) (int, error) {
	if err := f(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// decode reads the small body of a call.
func (s *Server) decode(c *gin.Context, v api.Body) error {
	data, err := s.readBody(c.Writer, c.Request)
	if err != nil {
		return err
	}
	if err := api.Decode(data, v); err != nil {
		return badBody(err)
	}
	return nil
}
