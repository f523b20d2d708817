package a2a

import (
	"context"
	"errors"
	"strings"

	"innerd/adapter/a2a/extension"
	"innerd/adapter/a2a/push"
	"innerd/adapter/a2a/spec"
	"innerd/adapter/api"
	"innerd/backends"
	"innerd/events/journal"
	"innerd/runs"
	"innerd/toolbridge"
)

// errorOf is the one place that knows which error of the domain is which of
// A2A. Errors that a client cannot understand are kept as they are, and become
// an internal error where they are answered.
func errorOf(err error) error {
	var known *spec.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	var field *backends.FieldError
	var limited *runs.LimitedError
	var gone *journal.GoneError
	var posed *api.FieldError
	switch {
	case errors.As(err, &field):
		return spec.InvalidParams(settingField(field.Field), field.Reason)
	case errors.As(err, &posed):
		return spec.InvalidParams(settingField(posed.Field), posed.Reason)
	case errors.As(err, &limited):
		return spec.ErrRateLimited.With("%v", limited)
	case errors.As(err, &gone):
		return spec.ErrTaskNotFound.With("the events of the task are not kept any more")
	}
	for _, c := range []struct {
		is error
		as *spec.Error
	}{
		{runs.ErrNotFound, spec.ErrTaskNotFound},
		{runs.ErrConflict, spec.ErrInvalidParams},
		{runs.ErrBusy, spec.ErrBusy},
		{runs.ErrDraining, spec.ErrUnavailable},
		{runs.ErrEnded, spec.ErrUnsupported},
		{runs.ErrWaiting, spec.ErrUnsupported},
		{runs.ErrUnsupported, spec.ErrUnsupported},
		{toolbridge.ErrNotFound, spec.ErrInvalidParams},
		{toolbridge.ErrAnswered, spec.ErrInvalidParams},
		{toolbridge.ErrInvalid, spec.ErrInvalidParams},
		{push.ErrUnsafe, spec.ErrInvalidParams},
		{push.ErrNotFound, spec.ErrTaskNotFound},
		{push.ErrTooMany, spec.ErrInvalidParams},
	} {
		if errors.Is(err, c.is) {
			return c.as.With("%v", err)
		}
	}
	return err
}

// settingField is the place in A2A of a field of the host-loop profile.
func settingField(name string) string {
	if rest, ok := strings.CutPrefix(name, "metadata."); ok {
		return "metadata[" + extension.URI + "]." + rest
	}
	if name == "context_id" {
		return "message.contextId"
	}
	return name
}

// public is an error as a client may see it; what is only the server's is
// logged.
func (s *Server) public(ctx context.Context, what string, err error) *spec.Error {
	var known *spec.Error
	if errors.As(errorOf(err), &known) {
		return known
	}
	if ctx.Err() == nil {
		s.log.Error("A2A request failed", "operation", what, "error", err)
	}
	return spec.ErrInternal
}
