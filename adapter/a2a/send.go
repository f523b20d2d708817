package a2a

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/oklog/ulid/v2"

	"innerd/adapter/a2a/extension"
	"innerd/adapter/a2a/spec"
	"innerd/runs"
	"innerd/runs/history"
	"innerd/telemetry"
)

// turn is what became of a message: an answer, or a run.
type turn struct {
	answer *spec.Message
	run    *runs.Run
	at     int64 // the event in which the run took the message
	ext    bool
	brief  bool // the caller reads the task elsewhere, and shall not wait for its end
	full   bool // no place is left for what lasts: it gets the task as it is, at once
}

// SendMessage takes a message and waits until its task has ended or waits for
// the client, unless the client wants the task at once.
func (s *Server) SendMessage(ctx context.Context, c Call, req *spec.SendMessageRequest) (*spec.StreamResponse, error) {
	cfg := req.Configuration
	waits := cfg == nil || !cfg.ReturnImmediately
	t, leave, err := s.takePlaced(ctx, c, req, func(t turn) bool { return waits && !t.brief })
	if err != nil {
		return nil, err
	}
	defer leave()
	if t.answer != nil {
		return &spec.StreamResponse{Message: t.answer}, nil
	}
	if waits && !t.brief && !t.full {
		s.opt.PutDown(ctx)
		if err := s.settled(ctx, t.run); err != nil {
			return nil, err
		}
	}
	v, err := s.large(ctx, t.run, t.ext)
	if err != nil {
		return nil, err
	}
	if cfg != nil {
		limitHistory(&v.task, cfg.HistoryLength)
	}
	return &spec.StreamResponse{Task: &v.task}, nil
}

// SendStreamingMessage takes a message and gives its task, then what happens,
// until the task has ended or waits for an answer.
func (s *Server) SendStreamingMessage(ctx context.Context, c Call, req *spec.SendMessageRequest) (*Stream, error) {
	t, leave, err := s.takePlaced(ctx, c, req, func(turn) bool { return true })
	if err != nil {
		return nil, err
	}
	if t.answer != nil {
		return &Stream{first: []frame{{response: spec.StreamResponse{Message: t.answer}}}, leave: leave}, nil
	}
	var limit *spec.Int
	if req.Configuration != nil {
		limit = req.Configuration.HistoryLength
	}
	if t.full {
		v, err := s.largeAt(ctx, t.run, t.ext, t.at)
		if err != nil {
			return nil, err
		}
		limitHistory(&v.task, limit)
		return &Stream{first: snapshotFrames(v)}, nil
	}
	return placed(leave, func() (*Stream, error) { return s.streamFrom(ctx, t.run, t.ext, limit, true, t.at) })
}

// takePlaced is take, with the place of an answer that lasts: a new task begins
// when it has one; what is for a task that is there, its answers and results,
// comes in before it waits for one, since other streams may wait for that. What
// has come in is never refused: who sends it again would tell the agent twice.
func (s *Server) takePlaced(ctx context.Context, c Call, req *spec.SendMessageRequest, lasts func(turn) bool) (turn, func(), error) {
	leave, kept := func() {}, false
	defer func() { // also after a panic
		if !kept {
			leave()
		}
	}()
	more := req.Message != nil && req.Message.TaskID != ""
	if !more && lasts(turn{}) {
		place, err := s.hold(ctx)
		if err != nil {
			return turn{}, nil, err
		}
		leave = place
	}
	t, err := s.take(ctx, c, req)
	if err != nil {
		return turn{}, nil, err
	}
	if more && t.answer == nil && lasts(t) {
		place, err := s.hold(ctx)
		switch {
		case err == nil:
			leave = place
		case ctx.Err() != nil:
			return turn{}, nil, err
		default:
			t.full = true
		}
	}
	kept = true
	return t, leave, nil
}

// take checks a message and gives it to whom it is for.
func (s *Server) take(ctx context.Context, c Call, req *spec.SendMessageRequest) (turn, error) {
	if err := req.Message.Check(); err != nil {
		return turn{}, err
	}
	if cfg := req.Configuration; cfg != nil {
		if cfg.HistoryLength != nil && *cfg.HistoryLength < 0 {
			return turn{}, spec.InvalidParams("configuration.historyLength", "must not be negative")
		}
		if cfg.PushConfig != nil {
			if err := s.checkPush(ctx, "configuration.taskPushNotificationConfig", cfg.PushConfig); err != nil {
				return turn{}, err
			}
		}
	}
	t, err := s.give(ctx, c, req)
	if err != nil || t.run == nil {
		return t, err
	}
	if cfg := req.Configuration; cfg != nil && cfg.PushConfig != nil {
		after := int64(0)
		if req.Message.TaskID != "" {
			after = t.run.Log().Last()
		}
		if _, err := s.keepPush(c, t.run, *cfg.PushConfig, after); err != nil {
			return turn{}, err
		}
	}
	return t, nil
}

func (s *Server) give(ctx context.Context, c Call, req *spec.SendMessageRequest) (turn, error) {
	if req.Message.TaskID != "" {
		return s.more(ctx, c, req)
	}
	m, err := s.runs(ctx)
	if err != nil {
		return turn{}, err
	}
	backend, err := s.tenant(ctx, m, c, req.Tenant)
	if err != nil {
		return turn{}, err
	}
	r, err := s.specOf(c, m, req, backend)
	if err != nil {
		return turn{}, err
	}
	if s.opt.Intercept != nil {
		if answer := s.opt.Intercept(ctx, req, &r); answer != nil {
			return turn{answer: answer}, nil
		}
	}
	r.Trace = telemetry.ParseLink(c.Traceparent, c.Tracestate)
	run, _, err := m.Start(ctx, c.Owner, r)
	if err != nil {
		return turn{}, errorOf(err)
	}
	return turn{run: run, at: 1, ext: c.Ext}, nil
}

// specOf is the run that a message asks for, by way of the host-loop profile:
// a setting means the same there.
func (s *Server) specOf(c Call, m *runs.Manager, req *spec.SendMessageRequest, backend string) (runs.Spec, error) {
	msg := req.Message
	contextID := msg.ContextID
	switch {
	case contextID == "":
		contextID = ulid.Make().String()
	case contextID == "default":
		return runs.Spec{}, spec.InvalidParams("message.contextId", `"default" has a meaning of its own here; take another`)
	}
	settings, err := settingsOf(req)
	if err != nil {
		return runs.Spec{}, err
	}
	if backend != "" {
		settings["backend"] = quote(backend)
	}
	user := messageBody(msg)
	body := encode(map[string]any{"context_id": contextID, "messages": []any{user}, "metadata": settings})
	r, err := s.opt.Spec(body)
	if err != nil {
		return r, errorOf(err)
	}
	r.Detach, r.Settings.Interactive = true, true
	r.Request = encode(storedRequest{A2A: &storedMessage{Message: withoutSecrets(*msg)}})
	r.TaskID, r.BodyHash = "", ""
	if c.Key != "" {
		r.TaskID = "idem-" + hashOf(c.Owner, c.Key)[:40]
		r.BodyHash = hashOf(string(encode(req)))
	}
	r.Earlier = func() []history.Message { return earlier(m, c.Owner, contextID, backendName(r.Backend, backend)) }
	return r, nil
}

func backendName(of ...string) string {
	for _, name := range of {
		if name != "" {
			return name
		}
	}
	return ""
}

// settingsOf is what the extension says about how a run shall be done, in the
// metadata of the request and, which counts more, of the message.
func settingsOf(req *spec.SendMessageRequest) (map[string]json.RawMessage, error) {
	out := map[string]json.RawMessage{}
	for _, m := range []struct {
		field string
		raw   spec.Object
	}{{"metadata", req.Metadata}, {"message.metadata", req.Message.Metadata}} {
		raw := oursIn(m.raw)
		if raw == nil {
			continue
		}
		var settings map[string]json.RawMessage
		if json.Unmarshal(raw, &settings) != nil {
			return nil, spec.InvalidParams(m.field+"["+extension.URI+"]", "must be an object")
		}
		for k, v := range settings {
			out[k] = v
		}
	}
	for _, k := range []string{"task_id", "detach", "detach_grace_s", "interactive", "events", "context_reuse", "query", "context"} {
		delete(out, k) // the protocol itself says these
	}
	return out, nil
}

// messageBody is a message in the words of the host-loop profile.
func messageBody(m *spec.Message) map[string]any {
	var texts []string
	var files, images, audio, videos []any
	for _, p := range m.Parts {
		switch {
		case p.Text != nil:
			texts = append(texts, *p.Text)
		case p.Data != nil:
			texts = append(texts, string(p.Data))
		default:
			file := map[string]any{"mime_type": p.MediaType, "filename": p.Filename}
			if p.Raw != nil {
				file["content"] = string(*p.Raw)
			} else {
				file["url"] = *p.URL
			}
			switch family, _, _ := strings.Cut(p.MediaType, "/"); family {
			case "image":
				images = append(images, file)
			case "audio":
				audio = append(audio, file)
			case "video":
				videos = append(videos, file)
			default:
				files = append(files, file)
			}
		}
	}
	out := map[string]any{"role": "user", "content": strings.Join(texts, "\n\n")}
	for name, list := range map[string][]any{"files": files, "images": images, "audio": audio, "videos": videos} {
		if list != nil {
			out[name] = list
		}
	}
	return out
}

// withoutSecrets is a message as it may be stored and shown: without the
// credentials and the values of env in our settings.
func withoutSecrets(m spec.Message) spec.Message {
	var metadata map[string]json.RawMessage
	if json.Unmarshal(m.Metadata, &metadata) != nil || metadata[extension.URI] == nil {
		return m
	}
	var settings map[string]json.RawMessage
	if json.Unmarshal(metadata[extension.URI], &settings) != nil {
		delete(metadata, extension.URI)
	} else {
		for k := range settings {
			if strings.EqualFold(k, "credentials") || strings.EqualFold(k, "env") {
				delete(settings, k)
			}
		}
		metadata[extension.URI] = encode(settings)
	}
	m.Metadata = encode(metadata)
	return m
}

// earlier is what was said in a context before, for an agent that lost it:
// the texts of its runs that are still kept, oldest first.
func earlier(m *runs.Manager, owner, contextID, backend string) []history.Message {
	infos := m.Infos(owner)
	var out []history.Message
	for i := len(infos) - 1; i >= 0; i-- {
		info := infos[i]
		if info.ContextID != contextID || info.End == nil || backend != "" && info.Backend != backend {
			continue
		}
		run, err := m.Get(owner, info.ID)
		if err != nil {
			continue // deleted meanwhile
		}
		t, err := run.Task()
		if err != nil {
			continue // what can't be read can't be told
		}
		for _, h := range t.History {
			out = append(out, history.Message{Role: h.Role, Text: h.Content})
		}
		for _, said := range t.Messages {
			out = append(out, history.Message{Role: "assistant", Text: said.Content})
		}
	}
	return out
}

func hashOf(words ...string) string {
	h := sha256.New()
	for _, w := range words {
		h.Write([]byte(w))
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil))
}

func quote(s string) json.RawMessage { return encode(s) }

func join(words []string) string { return strings.Join(words, ", ") }
