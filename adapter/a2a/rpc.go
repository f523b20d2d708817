package a2a

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"innerd/adapter/a2a/spec"
	"innerd/adapter/apart"
)

type rpcRequest struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
}

// serveRPC is the JSON-RPC binding.
func (s *Server) serveRPC(w http.ResponseWriter, r *http.Request, c Call) {
	if !onlyPost(w, r) {
		return
	}
	var raw []byte
	var req rpcRequest
	var err error
	apart.Do(func() {
		if raw, err = s.body(w, r); err == nil {
			req, err = readRPC(raw)
		}
	})
	if err != nil {
		s.failRPC(w, r, req.ID, err)
		return
	}
	version, err := versionOf(r)
	old := strings.Contains(req.Method, "/") // no method of 1.0 has one
	if legacy := s.legacy.Load(); old && err == nil && version != spec.Version && legacy != nil {
		r.Body = io.NopCloser(bytes.NewReader(raw))
		legacy.RPC.ServeHTTP(w, r.WithContext(WithTenant(r.Context(), c.Tenant)))
		return
	}
	if err == nil && version == "0.3" {
		err = spec.ErrVersion.With("the method %s is not one of A2A 0.3", req.Method)
	}
	if err != nil {
		s.failRPC(w, r, req.ID, err)
		return
	}
	echo(w, c)
	s.dispatchRPC(w, r, c, req)
}

// onlyPost refuses a method that JSON-RPC does not know.
func onlyPost(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodPost {
		return true
	}
	w.Header().Set("Allow", http.MethodPost)
	writeJSON(w, http.StatusMethodNotAllowed, "application/json", spec.ErrMethod.With("JSON-RPC is POST").REST())
	return false
}

func readRPC(raw []byte) (req rpcRequest, err error) {
	if !json.Valid(raw) {
		return req, spec.ErrParse
	}
	if err := json.Unmarshal(raw, &req); err != nil {
		return rpcRequest{}, spec.ErrRequest.With("this is no JSON-RPC request: an object with jsonrpc, id, method and params is")
	}
	switch id := bytes.TrimSpace(req.ID); {
	case len(id) == 0 || id[0] == '{' || id[0] == '[' || id[0] == 't' || id[0] == 'f':
		req.ID = nil
		return req, spec.ErrRequest.With("id must be a text or a number")
	case req.JSONRPC != "2.0":
		return req, spec.ErrRequest.With(`jsonrpc must be "2.0"`)
	case req.Method == "":
		return req, spec.ErrRequest.With("method is missing")
	}
	return req, nil
}

// failRPC answers with an error: always HTTP 200, but where HTTP itself has a
// word for it.
func (s *Server) failRPC(w http.ResponseWriter, r *http.Request, id json.RawMessage, err error) {
	if r.Context().Err() != nil {
		return // nobody is there to read it
	}
	e := s.public(r.Context(), "JSON-RPC", err)
	status := http.StatusOK
	if e.HTTP == http.StatusUnsupportedMediaType || e.HTTP == http.StatusRequestEntityTooLarge {
		status = e.HTTP
	}
	writeJSON(w, status, "application/json", rpcError(id, e))
}

func rpcError(id json.RawMessage, e *spec.Error) []byte {
	return append(append(rpcHead(nil, id), `"error":`...), append(e.RPC(), '}')...)
}

func rpcHead(dst []byte, id json.RawMessage) []byte {
	if len(id) == 0 {
		id = json.RawMessage("null")
	}
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	return append(append(dst, id...), ',')
}

func rpcResult(dst []byte, id json.RawMessage, v any) []byte {
	return append(append(append(rpcHead(dst, id), `"result":`...), encode(v)...), '}')
}

// operation is a method that answers once.
type operation func(s *Server, ctx context.Context, c Call, params []byte) (any, error)

// once makes an operation of one of Server's.
func once[Req, Resp any](f func(*Server, context.Context, Call, *Req) (Resp, error)) operation {
	return func(s *Server, ctx context.Context, c Call, params []byte) (any, error) {
		req := new(Req)
		if err := spec.Decode(params, req); err != nil {
			return nil, err
		}
		return f(s, ctx, c, req)
	}
}

var operations = map[string]operation{
	"SendMessage": once((*Server).SendMessage),
	"GetTask":     once((*Server).GetTask),
	"ListTasks":   once((*Server).ListTasks),
	"CancelTask":  once((*Server).CancelTask),

	"CreateTaskPushNotificationConfig": once((*Server).CreatePushConfig),
	"GetTaskPushNotificationConfig":    once((*Server).GetPushConfig),
	"ListTaskPushNotificationConfigs":  once((*Server).ListPushConfigs),
	"DeleteTaskPushNotificationConfig": once(func(s *Server, ctx context.Context, c Call, req *spec.GetPushConfigRequest) (any, error) {
		return struct{}{}, s.DeletePushConfig(ctx, c, req)
	}),
	"GetExtendedAgentCard": once((*Server).ExtendedCard),
}

// streams are the methods that answer with events.
var streams = map[string]func(s *Server, ctx context.Context, c Call, params []byte) (*Stream, error){
	"SendStreamingMessage": func(s *Server, ctx context.Context, c Call, params []byte) (*Stream, error) {
		var req spec.SendMessageRequest
		if err := spec.Decode(params, &req); err != nil {
			return nil, err
		}
		return s.SendStreamingMessage(ctx, c, &req)
	},
	"SubscribeToTask": func(s *Server, ctx context.Context, c Call, params []byte) (*Stream, error) {
		var req spec.SubscribeToTaskRequest
		if err := spec.Decode(params, &req); err != nil {
			return nil, err
		}
		return s.SubscribeToTask(ctx, c, &req)
	},
}

func (s *Server) dispatchRPC(w http.ResponseWriter, r *http.Request, c Call, req rpcRequest) {
	params := bytes.TrimSpace(req.Params)
	if len(params) == 0 || bytes.Equal(params, []byte("null")) {
		params = []byte("{}")
	}
	if params[0] != '{' {
		s.failRPC(w, r, req.ID, spec.InvalidParams("params", "must be an object"))
		return
	}
	if open := streams[req.Method]; open != nil {
		var st *Stream
		var err error
		apart.Do(func() { st, err = open(s, r.Context(), c, params) })
		if err != nil {
			s.failRPC(w, r, req.ID, err)
			return
		}
		id := req.ID // all that a stream keeps of its request
		s.serveStream(w, r, st,
			func(dst []byte, v spec.StreamResponse) []byte { return rpcResult(dst, id, v) },
			func(e *spec.Error) []byte { return append(append([]byte("data: "), rpcError(id, e)...), "\n\n"...) })
		return
	}
	do := operations[req.Method]
	if do == nil {
		s.failRPC(w, r, req.ID, spec.ErrMethod.With("there is no method %q", req.Method))
		return
	}
	v, err := do(s, r.Context(), c, params)
	if err != nil {
		s.failRPC(w, r, req.ID, err)
		return
	}
	writeJSON(w, http.StatusOK, "application/json", rpcResult(nil, req.ID, v))
}
