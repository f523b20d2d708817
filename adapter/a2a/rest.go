package a2a

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"innerd/adapter/a2a/spec"
	"innerd/adapter/apart"
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

// operations of HTTP+JSON. given is what the path says of the request.
type restOperation func(s *Server, w http.ResponseWriter, r *http.Request, c Call, given map[string]any) error

// restRoutes are the operations by method and path, below the prefix and the
// tenant.
var restRoutes = map[string]restOperation{
	"POST /message:send": func(s *Server, w http.ResponseWriter, r *http.Request, c Call, _ map[string]any) error {
		return answer(s, w, r, c, (*Server).SendMessage, nil)
	},
	"POST /message:stream": func(s *Server, w http.ResponseWriter, r *http.Request, c Call, _ map[string]any) error {
		return s.streamREST(w, r, c, (*Server).SendStreamingMessage, nil)
	},
	"GET /extendedAgentCard": restOnce((*Server).ExtendedCard),
	"GET /tasks": func(s *Server, w http.ResponseWriter, r *http.Request, c Call, _ map[string]any) error {
		return answer(s, w, r, c, (*Server).ListTasks, queryOf(r.URL))
	},
	"GET /tasks/{id}": func(s *Server, w http.ResponseWriter, r *http.Request, c Call, given map[string]any) error {
		all := queryOf(r.URL)
		maps.Copy(all, given)
		return answer(s, w, r, c, (*Server).GetTask, all)
	},
	"POST /tasks/{id}:cancel":    restOnce((*Server).CancelTask),
	"GET /tasks/{id}:subscribe":  subscribeREST,
	"POST /tasks/{id}:subscribe": subscribeREST,

	"POST /tasks/{id}/pushNotificationConfigs":           restOnce((*Server).CreatePushConfig),
	"GET /tasks/{id}/pushNotificationConfigs":            restOnce((*Server).ListPushConfigs),
	"GET /tasks/{id}/pushNotificationConfigs/{configId}": restOnce((*Server).GetPushConfig),
	"DELETE /tasks/{id}/pushNotificationConfigs/{configId}": restOnce(func(s *Server, ctx context.Context, c Call, req *spec.GetPushConfigRequest) (any, error) {
		return struct{}{}, s.DeletePushConfig(ctx, c, req)
	}),
}

// restOnce is an operation that answers once and takes of the path what there is.
func restOnce[Req, Resp any](do func(*Server, context.Context, Call, *Req) (Resp, error)) restOperation {
	return func(s *Server, w http.ResponseWriter, r *http.Request, c Call, given map[string]any) error {
		return answer(s, w, r, c, do, given)
	}
}

func subscribeREST(s *Server, w http.ResponseWriter, r *http.Request, c Call, given map[string]any) error {
	id, _ := given["id"].(string)
	return s.streamREST(w, r, c, func(s *Server, ctx context.Context, c Call, req *spec.SendMessageRequest) (*Stream, error) {
		return s.SubscribeToTask(ctx, c, &spec.SubscribeToTaskRequest{ID: id, Tenant: req.Tenant})
	}, map[string]any{})
}

// dispatchREST finds the operation of a path.
func (s *Server) dispatchREST(w http.ResponseWriter, r *http.Request, c Call, segs []string) error {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	path, given := restPath(segs)
	if do := restRoutes[method+" "+path]; do != nil {
		return do(s, w, r, c, given)
	}
	return errPath
}

// restPath is the route of a path, with names for what is only this request's,
// and those by the names that requests have for them.
func restPath(segs []string) (path string, given map[string]any) {
	given = map[string]any{}
	switch {
	case len(segs) == 2 && segs[0] == "tasks":
		id, verb := segs[1], ""
		if i := strings.LastIndexByte(id, ':'); i >= 0 {
			id, verb = id[:i], id[i:]
		}
		given["id"] = id
		return "/tasks/{id}" + verb, given
	case len(segs) >= 3 && segs[0] == "tasks" && segs[2] == "pushNotificationConfigs":
		given["taskId"] = segs[1]
		path = "/tasks/{id}/pushNotificationConfigs"
		if len(segs) == 4 {
			given["id"] = segs[3]
			return path + "/{configId}", given
		}
		if len(segs) > 4 {
			return "", nil
		}
		return path, given
	case len(segs) == 1:
		return "/" + segs[0], given
	}
	return "", nil
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
			if object == nil { // null is JSON, and no request
				return nil, spec.InvalidParams("", "must be an object, not null")
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
	apart.Do(func() {
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
