package a2a

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"innerd/adapter/a2a/spec"
	"innerd/events/journal"
	"innerd/runs"
)

const (
	defaultPage = 50
	maxPage     = 100
)

// storedRequest is the part of a run's request that this binding wrote.
type storedRequest struct {
	A2A *storedMessage `json:"a2a,omitempty"`
}

type storedMessage struct {
	Message spec.Message `json:"message"`
}

// contextOf is the context of a run; one of the host-loop profile that has
// none is a context of its own.
func contextOf(run *runs.Run) string {
	if id := run.Log().Meta().ContextID; id != "" {
		return id
	}
	return run.ID()
}

// firstMessages is what a run was asked.
func firstMessages(run *runs.Run) []spec.Message {
	raw, err := run.Log().Request()
	if err != nil {
		return nil
	}
	var rec struct {
		History []runs.HistoryEntry `json:"history"`
		Request storedRequest       `json:"request"`
	}
	if json.Unmarshal(raw, &rec) != nil {
		return nil
	}
	if m := rec.Request.A2A; m != nil {
		m.Message.TaskID, m.Message.ContextID = run.ID(), contextOf(run)
		return []spec.Message{m.Message}
	}
	var out []spec.Message
	for i, h := range rec.History { // of the host-loop profile
		role := spec.RoleUser
		if h.Role != "user" {
			role = spec.RoleAgent
		}
		out = append(out, spec.Message{
			MessageID: fmt.Sprintf("%s-request-%d", run.ID(), i), TaskID: run.ID(), ContextID: contextOf(run),
			Role: role, Parts: []spec.Part{spec.Text(h.Content)},
		})
	}
	return out
}

// view is a task as it stands, and the translator that goes on from there.
type view struct {
	task spec.Task
	t    *translator
	last int64 // the event up to which it is
}

// shows is what of a task is wanted.
type shows struct{ artifacts, history bool }

var (
	whole = shows{true, true}
	bare  = shows{}
)

func (s *Server) view(ctx context.Context, run *runs.Run, ext bool, what shows) (view, error) {
	return s.viewAt(ctx, run, ext, what, 0)
}

// viewAt is the task as it stood after an event; 0: as it stands. It gives up
// when ctx ends.
func (s *Server) viewAt(ctx context.Context, run *runs.Run, ext bool, what shows, upTo int64) (view, error) {
	if ctx.Err() != nil { // it waited for its turn
		return view{}, context.Cause(ctx)
	}
	meta := run.Log().Meta()
	t := newTranslator(meta.ID, contextOf(run), meta.Backend, ext)
	var asked []spec.Message
	if what.history {
		asked = firstMessages(run)
	}
	snap := newSnapshot(meta.ID, t.contextID, asked, stamp(meta.Created.UnixMilli()))
	snap.bare = !what.artifacts
	var last int64
	var err error
	if _, ended := run.Log().Ended(); snap.bare && upTo == 0 && ended {
		last, err = t.foldEnd(ctx, run.Log(), snap.apply)
	} else {
		last, err = t.fold(ctx, run.Log(), upTo, snap.apply)
	}
	if err != nil {
		return view{}, errorOf(err)
	}
	if upTo == 0 {
		f := follower{run: run}
		for _, u := range t.settle(f.pending) {
			snap.apply(u)
		}
	}
	v := view{task: snap.result(), t: t, last: last}
	if end, ended := run.Log().Ended(); ended && t.state.Terminal() {
		v.task.Status.Timestamp = stamp(end.Ended.UnixMilli()) // what lists are sorted by
	}
	if ext {
		v.task.Metadata = ours(t.taskInfo())
	}
	return v, nil
}

// large is the task as it stands, for an answer with all of it, which waits for
// its turn.
func (s *Server) large(ctx context.Context, run *runs.Run, ext bool) (view, error) {
	return s.largeAt(ctx, run, ext, 0)
}

func (s *Server) largeAt(ctx context.Context, run *runs.Run, ext bool, upTo int64) (view, error) {
	if err := s.takeUp(ctx, run.Weight()); err != nil {
		return view{}, err
	}
	return s.viewAt(ctx, run, ext, whole, upTo)
}

// settled waits until a task has ended or waits for its client.
func (s *Server) settled(ctx context.Context, run *runs.Run) error {
	v, err := s.view(ctx, run, false, bare)
	if err != nil {
		return err
	}
	if v.t.state.Terminal() || v.t.state.Interrupted() {
		return nil
	}
	f, err := follow(run, v.t, v.last, notDelta)
	if err != nil {
		return errorOf(err)
	}
	defer f.close()
	for {
		u, err := f.next(ctx, time.Time{})
		var gone *journal.GoneError
		if errors.As(err, &gone) { // without a disk
			return s.settled(ctx, run)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return errorOf(err)
		}
		if st := u.status; st != nil && (st.State.Terminal() || st.State.Interrupted()) {
			return nil
		}
	}
}

// GetTask gives a task as it stands.
func (s *Server) GetTask(ctx context.Context, c Call, req *spec.GetTaskRequest) (*spec.Task, error) {
	if req.HistoryLength != nil && *req.HistoryLength < 0 {
		return nil, spec.InvalidParams("historyLength", "must not be negative")
	}
	run, _, err := s.find(ctx, c, req.Tenant, "id", req.ID)
	if err != nil {
		return nil, err
	}
	v, err := s.large(ctx, run, c.Ext)
	if err != nil {
		return nil, err
	}
	limitHistory(&v.task, req.HistoryLength)
	return &v.task, nil
}

// CancelTask ends a task and gives it as it stands then, at the latest after
// 8 s. One that was canceled already is given as it is.
func (s *Server) CancelTask(ctx context.Context, c Call, req *spec.CancelTaskRequest) (*spec.Task, error) {
	run, _, err := s.find(ctx, c, req.Tenant, "id", req.ID)
	if err != nil {
		return nil, err
	}
	_, err = run.Cancel(ctx, "")
	if err != nil && !errors.Is(err, runs.ErrEnded) {
		return nil, errorOf(err)
	}
	ended := err != nil
	v, err := s.large(ctx, run, c.Ext)
	if err != nil {
		return nil, err
	}
	if ended && v.task.Status.State != spec.StateCanceled {
		return nil, spec.ErrTaskNotCancelable
	}
	return &v.task, nil
}

// row is a task in a list, before it is looked at closely.
type row struct {
	info  journal.Info
	stamp int64 // Unix milliseconds of its status
	state spec.TaskState
}

// key orders rows: newest status first, then by id.
func (r row) key() string { return fmt.Sprintf("%016x%s", r.stamp, r.info.ID) }

// ListTasks gives the caller's tasks, newest status first.
func (s *Server) ListTasks(ctx context.Context, c Call, req *spec.ListTasksRequest) (*spec.ListTasksResponse, error) {
	q, err := s.query(ctx, c, req)
	if err != nil {
		return nil, err
	}
	rows, err := q.rows(ctx, s)
	if err != nil {
		return nil, err
	}
	out := &spec.ListTasksResponse{Tasks: []*spec.Task{}, PageSize: q.size, TotalSize: len(rows)}
	page := q.page(rows, out)
	if err := s.takeUp(ctx, page.weight); err != nil {
		return nil, err
	}
	limit := req.HistoryLength
	if limit == nil {
		limit = new(spec.Int)
	}
	for _, run := range page.runs {
		v, err := s.view(ctx, run, c.Ext, page.what)
		if err != nil {
			return nil, err
		}
		limitHistory(&v.task, limit)
		out.Tasks = append(out.Tasks, &v.task)
	}
	return out, nil
}

// query is a list's request, checked.
type query struct {
	m       *runs.Manager
	owner   string
	backend string
	req     *spec.ListTasksRequest
	size    int
	after   string // key of the last row of the page before
	since   int64
}

func (s *Server) query(ctx context.Context, c Call, req *spec.ListTasksRequest) (*query, error) {
	q := &query{owner: c.Owner, req: req, size: defaultPage}
	if req.PageSize != nil {
		if q.size = int(*req.PageSize); q.size < 1 || q.size > maxPage {
			return nil, spec.InvalidParams("pageSize", fmt.Sprintf("must be from 1 to %d", maxPage))
		}
	}
	if req.HistoryLength != nil && *req.HistoryLength < 0 {
		return nil, spec.InvalidParams("historyLength", "must not be negative")
	}
	if req.PageToken != "" {
		raw, err := base64.RawURLEncoding.DecodeString(req.PageToken)
		if err != nil || len(raw) < 17 {
			return nil, spec.InvalidParams("pageToken", "is not one that this server gave")
		}
		q.after = string(raw)
	}
	if req.StatusTimestampAfter != "" {
		at, err := time.Parse(time.RFC3339Nano, req.StatusTimestampAfter)
		if err != nil {
			return nil, spec.InvalidParams("statusTimestampAfter", "must be a time like 2026-01-31T12:00:00.000Z")
		}
		q.since = at.UnixMilli()
	}
	m, err := s.runs(ctx)
	if err != nil {
		return nil, err
	}
	q.m = m
	q.backend, err = s.tenant(ctx, m, c, req.Tenant)
	return q, err
}

// rows are all tasks that the query means, in the order of the list. Logs are
// read only of those that have not ended.
func (q *query) rows(ctx context.Context, s *Server) ([]row, error) {
	var rows []row
	for _, info := range q.m.Infos(q.owner) {
		contextID := info.ContextID
		if contextID == "" {
			contextID = info.ID
		}
		if q.req.ContextID != "" && contextID != q.req.ContextID || q.backend != "" && info.Backend != q.backend {
			continue
		}
		r := row{info: info}
		if info.End != nil {
			r.stamp, r.state = info.End.Ended.UnixMilli(), endState(info.End.State, info.End.Reason, info.End.ErrorType)
		} else {
			run, err := q.m.Get(q.owner, info.ID)
			if err != nil {
				continue
			}
			v, err := s.view(ctx, run, false, bare)
			if err != nil {
				return nil, err
			}
			at, _ := time.Parse(stampFormat, v.task.Status.Timestamp)
			r.stamp, r.state = at.UnixMilli(), v.task.Status.State
		}
		if state := q.req.Status; state != "" && state != spec.StateUnspecified && state != r.state {
			continue
		}
		if q.since != 0 && r.stamp < q.since {
			continue
		}
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b row) int { return strings.Compare(b.key(), a.key()) })
	return rows, nil
}
