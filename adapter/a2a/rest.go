package a2a

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"innerd/adapter/a2a/spec"
)

// mediaType is that of HTTP+JSON.
const mediaType = "application/a2a+json"

// serveREST is the HTTP+JSON binding.
func (s *Server) serveREST(w http.ResponseWriter, r *http.Request, c Call, segs []string) {
	echo(w, c)
	version, err := versionOf(r)
	if err == nil && version == "0.3" {
		err = spec.ErrVersion.With("A2A 0.3 is served below /v0.3/")
	}
	if err == nil {
		err = s.dispatchREST(w, r, c, segs)
	}
	if err != nil {
		s.failREST(w, r, err)
	}
}

func (s *Server) failREST(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return // nobody is there to read it
	}
	e := s.public(r.Context(), r.Method+" "+r.URL.Path, err)
	writeJSON(w, e.HTTP, "application/json", e.REST())
}

var errPath = spec.ErrMethod.With("there is no such path, or not with this method")

// dispatchREST finds the operation of a path.
func (s *Server) dispatchREST(w http.ResponseWriter, r *http.Request, c Call, segs []string) error {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	switch {
	case len(segs) == 1 && segs[0] == "message:send" && method == http.MethodPost:
		return answer(s, w, r, c, (*Server).SendMessage, nil)
	case len(segs) == 1 && segs[0] == "message:stream" && method == http.MethodPost:
		return s.streamREST(w, r, c, (*Server).SendStreamingMessage, nil)
	case len(segs) == 1 && segs[0] == "extendedAgentCard" && method == http.MethodGet:
		return answer(s, w, r, c, (*Server).ExtendedCard, map[string]any{})
	case len(segs) == 1 && segs[0] == "tasks" && method == http.MethodGet:
		return answer(s, w, r, c, (*Server).ListTasks, queryOf(r.URL))
	case len(segs) == 2 && segs[0] == "tasks":
		return s.taskREST(w, r, c, method, segs[1])
	case len(segs) >= 3 && segs[0] == "tasks" && segs[2] == "pushNotificationConfigs":
		return s.pushREST(w, r, c, method, segs)
	}
	return errPath
}

// taskREST is /tasks/{id} and /tasks/{id}:verb.
func (s *Server) taskREST(w http.ResponseWriter, r *http.Request, c Call, method, seg string) error {
	id, verb := seg, ""
	if i := strings.LastIndexByte(seg, ':'); i >= 0 {
		id, verb = seg[:i], seg[i+1:]
	}
	given := map[string]any{"id": id}
	switch {
	case verb == "" && method == http.MethodGet:
		for k, v := range queryOf(r.URL) {
			given[k] = v
		}
		given["id"] = id
		return answer(s, w, r, c, (*Server).GetTask, given)
	case verb == "cancel" && method == http.MethodPost:
		return answer(s, w, r, c, (*Server).CancelTask, given)
	case verb == "subscribe" && (method == http.MethodGet || method == http.MethodPost):
		return s.streamREST(w, r, c, func(s *Server, ctx context.Context, c Call, req *spec.SendMessageRequest) (*Stream, error) {
			return s.SubscribeToTask(ctx, c, &spec.SubscribeToTaskRequest{ID: id, Tenant: req.Tenant})
		}, map[string]any{})
	}
	return errPath
}

func (s *Server) pushREST(w http.ResponseWriter, r *http.Request, c Call, method string, segs []string) error {
	given := map[string]any{"taskId": segs[1]}
	if len(segs) == 4 {
		given["id"] = segs[3]
	}
	switch {
	case len(segs) == 3 && method == http.MethodPost:
		return answer(s, w, r, c, (*Server).CreatePushConfig, given)
	case len(segs) == 3 && method == http.MethodGet:
		return answer(s, w, r, c, (*Server).ListPushConfigs, given)
	case len(segs) == 4 && method == http.MethodGet:
		return answer(s, w, r, c, (*Server).GetPushConfig, given)
	case len(segs) == 4 && method == http.MethodDelete:
		return answer(s, w, r, c, func(s *Server, ctx context.Context, c Call, req *spec.GetPushConfigRequest) (any, error) {
			return struct{}{}, s.DeletePushConfig(ctx, c, req)
		}, given)
	}
	return errPath
}

// queryOf is a query as an object: the numbers and flags of it are read from
// texts anyway.
func queryOf(u *url.URL) map[string]any {
	out := map[string]any{}
	for name, values := range u.Query() {
		if len(values) == 0 || values[0] == "" {
			continue
		}
		switch name {
		case "includeArtifacts", "include_artifacts":
			out["includeArtifacts"] = values[0] == "true" || values[0] == "1"
		default:
			out[name] = values[0]
		}
	}
	return out
}

// read makes the request of a call: its body, and what path and query say.
func read[Req any](s *Server, w http.ResponseWriter, r *http.Request, given map[string]any) (*Req, error) {
	req := new(Req)
	object := map[string]json.RawMessage{}
	if r.Method == http.MethodPost {
		raw, err := s.body(w, r)
		if err != nil {
			return nil, err
		}
		if len(raw) > 0 || given == nil {
			if given == nil {
				return req, spec.Decode(raw, req)
			}
			if err := spec.Decode(raw, &object); err != nil {
				return nil, err
			}
		}
	}
	for k, v := range given {
		object[k] = encode(v)
	}
	return req, spec.Decode(encode(object), req)
}

// answer is an operation that answers once.
func answer[Req, Resp any](s *Server, w http.ResponseWriter, r *http.Request, c Call, do func(*Server, context.Context, Call, *Req) (Resp, error), given map[string]any) error {
	req, err := read[Req](s, w, r, given)
	if err != nil {
		return err
	}
	v, err := do(s, r.Context(), c, req)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, accepted(r), encode(v))
	return nil
}

// accepted is the media type of the answer: A2A's own where the client names
// it, since others take only the plain one.
func accepted(r *http.Request) string {
	if strings.Contains(r.Header.Get("Accept"), mediaType) {
		return mediaType
	}
	return "application/json"
}

// streamREST is an operation that answers with events. Errors before the first
// are a plain answer.
func (s *Server) streamREST(w http.ResponseWriter, r *http.Request, c Call, open func(*Server, context.Context, Call, *spec.SendMessageRequest) (*Stream, error), given map[string]any) error {
	var st *Stream
	var err error
	apart(func() {
		var req *spec.SendMessageRequest
		if req, err = read[spec.SendMessageRequest](s, w, r, given); err == nil {
			st, err = open(s, r.Context(), c, req)
		}
	})
	if err != nil {
		return err
	}
	s.serveStream(w, r, st,
		func(dst []byte, v spec.StreamResponse) []byte { return append(dst, encode(v)...) },
		func(e *spec.Error) []byte {
			return append(append([]byte("event: error\ndata: "), e.REST()...), "\n\n"...)
		})
	return nil
}
