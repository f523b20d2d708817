package a2a

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"innerd/adapter/a2a/push"
	"innerd/adapter/a2a/spec"
	"innerd/runs"
)

func (s *Server) checkPush(ctx context.Context, field string, cfg *spec.PushConfig) error {
	if s.push == nil {
		return spec.ErrPushNotSupported
	}
	if err := s.push.Check(ctx, cfg); err != nil {
		if errors.Is(err, push.ErrUnsafe) {
			return spec.InvalidParams(field+".url", err.Error())
		}
		return err
	}
	return nil
}

func (s *Server) keepPush(c Call, run *runs.Run, cfg spec.PushConfig, after int64) (*spec.PushConfig, error) {
	cfg.TaskID = run.ID()
	out, err := s.push.Create(c.Owner, cfg, after)
	if err != nil {
		return nil, errorOf(err)
	}
	return &out, nil
}

// CreatePushConfig has a task's events sent to a webhook from now on.
func (s *Server) CreatePushConfig(ctx context.Context, c Call, cfg *spec.PushConfig) (*spec.PushConfig, error) {
	if s.push == nil {
		return nil, spec.ErrPushNotSupported
	}
	run, _, err := s.find(ctx, c, cfg.Tenant, "taskId", cfg.TaskID)
	if err != nil {
		return nil, err
	}
	if cfg.URL == "" {
		return nil, spec.InvalidParams("url", "is required")
	}
	if err := s.checkPush(ctx, "config", cfg); err != nil {
		return nil, err
	}
	return s.keepPush(c, run, *cfg, run.Log().Last())
}

// GetPushConfig gives one configuration of a task.
func (s *Server) GetPushConfig(ctx context.Context, c Call, req *spec.GetPushConfigRequest) (*spec.PushConfig, error) {
	if s.push == nil {
		return nil, spec.ErrPushNotSupported
	}
	run, _, err := s.find(ctx, c, req.Tenant, "taskId", req.TaskID)
	if err != nil {
		return nil, err
	}
	cfg, err := s.push.Get(c.Owner, run.ID(), req.ID)
	if err != nil {
		return nil, errorOf(err)
	}
	return &cfg, nil
}

// ListPushConfigs gives all configurations of a task, which are few.
func (s *Server) ListPushConfigs(ctx context.Context, c Call, req *spec.ListPushConfigsRequest) (*spec.ListPushConfigsResponse, error) {
	if s.push == nil {
		return nil, spec.ErrPushNotSupported
	}
	run, _, err := s.find(ctx, c, req.Tenant, "taskId", req.TaskID)
	if err != nil {
		return nil, err
	}
	return &spec.ListPushConfigsResponse{Configs: s.push.List(c.Owner, run.ID())}, nil
}

// DeletePushConfig ends a configuration; one that is not there is none already.
func (s *Server) DeletePushConfig(ctx context.Context, c Call, req *spec.GetPushConfigRequest) error {
	if s.push == nil {
		return spec.ErrPushNotSupported
	}
	run, _, err := s.find(ctx, c, req.Tenant, "taskId", req.TaskID)
	if err != nil {
		return err
	}
	return errorOf(s.push.Delete(c.Owner, run.ID(), req.ID))
}

// feed is the events of a task as its webhooks get them: the task itself
// first, where they are told from its beginning.
func (s *Server) feed(ctx context.Context, owner, taskID string, after int64) (push.Feed, error) {
	m := s.domain.Load()
	if m == nil {
		return nil, errors.New("a2a: no domain yet")
	}
	run, err := m.Get(owner, taskID)
	if err != nil {
		return nil, push.ErrGone
	}
	if after == 0 {
		st, err := s.streamFrom(ctx, run, false, nil, false, 1)
		if err != nil {
			return nil, err
		}
		return &pushFeed{st}, nil
	}
	st, err := s.resume(ctx, run, Call{After: after})
	if err != nil {
		return nil, err
	}
	return &pushFeed{st}, nil
}

type pushFeed struct{ st *Stream }

// Next implements push.Feed.
func (f *pushFeed) Next(ctx context.Context) ([]byte, int64, error) {
	fr, err := f.st.next(ctx, time.Time{})
	if err != nil {
		return nil, 0, err
	}
	raw, err := json.Marshal(fr.response)
	return raw, fr.id, err
}

// Close implements push.Feed.
func (f *pushFeed) Close() { f.st.Close() }
