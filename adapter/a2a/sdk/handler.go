// Package sdk serves gRPC and A2A 0.3 by the official SDK's adapters, on the
// operations of package a2a. The SDK's own server core is not used: it is
// quadratic in the pieces of an artifact, and one reader that stops reading
// holds up everybody.
package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	sdka2a "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/a2aproject/a2a-go/v2/errordetails"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"innerd/adapter/a2a"
	"innerd/adapter/a2a/extension"
	"innerd/adapter/a2a/spec"
)

// handler is a2a.Server as the SDK's adapters want it. Types go over by way of
// their JSON, which is the same on both sides.
type handler struct {
	s *a2a.Server
	// owner is whose key a call was made with.
	owner func(context.Context) string
	// old says that the adapter is one of 0.3, whose clients send no version.
	old bool
}

var _ a2asrv.RequestHandler = (*handler)(nil)

// call reads who calls and how.
func (h *handler) call(ctx context.Context) (a2a.Call, error) {
	c := a2a.Call{Owner: h.owner(ctx), Tenant: a2a.TenantOf(ctx), After: -1}
	cc, ok := a2asrv.CallContextFrom(ctx)
	if !ok {
		return c, nil
	}
	ext := &sdka2a.AgentExtension{URI: extension.URI}
	lines, _ := cc.ServiceParams().Get(sdka2a.SvcParamExtensions)
	for _, uri := range strings.Split(strings.Join(lines, ","), ",") {
		if strings.TrimSpace(uri) == extension.URI {
			c.Ext = true
			cc.Extensions().Activate(ext)
		}
	}
	if keys, ok := cc.ServiceParams().Get("Idempotency-Key"); ok && len(keys) > 0 {
		c.Key = keys[0]
	}
	for name, v := range map[string]*string{"traceparent": &c.Traceparent, "tracestate": &c.Tracestate} {
		if lines, ok := cc.ServiceParams().Get(name); ok && len(lines) == 1 {
			*v = lines[0]
		}
	}
	if h.old {
		return c, nil
	}
	given := ""
	if v, ok := cc.ServiceParams().Get(sdka2a.SvcParamVersion); ok && len(v) > 0 {
		given = v[0]
	}
	version, err := a2a.CheckVersion(given)
	if err == nil && version == "0.3" {
		err = spec.ErrVersion.With("A2A 0.3 is not served over gRPC")
	}
	return c, h.fail(err)
}

// via turns a value of one side into one of the other.
func via[To any](from any) (*To, error) {
	raw, err := json.Marshal(from)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", sdka2a.ErrInvalidParams, err)
	}
	to := new(To)
	if err := json.Unmarshal(raw, to); err != nil {
		return nil, fmt.Errorf("%w: %w", sdka2a.ErrInvalidParams, err)
	}
	return to, nil
}

// do is an operation: the request goes over, the answer comes back.
func do[Resp, SpecReq, SpecResp any](h *handler, ctx context.Context, req any, op func(context.Context, a2a.Call, *SpecReq) (SpecResp, error)) (*Resp, error) {
	c, err := h.call(ctx)
	if err != nil {
		return nil, err
	}
	in, err := via[SpecReq](req)
	if err != nil {
		return nil, err
	}
	out, err := op(ctx, c, in)
	if err != nil {
		return nil, h.fail(err)
	}
	return via[Resp](out)
}

// GetTask implements a2asrv.RequestHandler.
func (h *handler) GetTask(ctx context.Context, req *sdka2a.GetTaskRequest) (*sdka2a.Task, error) {
	return do[sdka2a.Task](h, ctx, req, h.s.GetTask)
}

// ListTasks implements a2asrv.RequestHandler.
func (h *handler) ListTasks(ctx context.Context, req *sdka2a.ListTasksRequest) (*sdka2a.ListTasksResponse, error) {
	return do[sdka2a.ListTasksResponse](h, ctx, req, h.s.ListTasks)
}

// CancelTask implements a2asrv.RequestHandler.
func (h *handler) CancelTask(ctx context.Context, req *sdka2a.CancelTaskRequest) (*sdka2a.Task, error) {
	return do[sdka2a.Task](h, ctx, req, h.s.CancelTask)
}

// SendMessage implements a2asrv.RequestHandler.
func (h *handler) SendMessage(ctx context.Context, req *sdka2a.SendMessageRequest) (sdka2a.SendMessageResult, error) {
	out, err := do[sdka2a.StreamResponse](h, ctx, req, h.s.SendMessage)
	if err != nil {
		return nil, err
	}
	result, ok := out.Event.(sdka2a.SendMessageResult)
	if !ok {
		return nil, sdka2a.ErrInvalidAgentResponse
	}
	return result, nil
}

// SubscribeToTask implements a2asrv.RequestHandler.
func (h *handler) SubscribeToTask(ctx context.Context, req *sdka2a.SubscribeToTaskRequest) iter.Seq2[sdka2a.Event, error] {
	return stream(h, ctx, req, h.s.SubscribeToTask)
}

// SendStreamingMessage implements a2asrv.RequestHandler.
func (h *handler) SendStreamingMessage(ctx context.Context, req *sdka2a.SendMessageRequest) iter.Seq2[sdka2a.Event, error] {
	return stream(h, ctx, req, h.s.SendStreamingMessage)
}

func stream[SpecReq any](h *handler, ctx context.Context, req any, open func(context.Context, a2a.Call, *SpecReq) (*a2a.Stream, error)) iter.Seq2[sdka2a.Event, error] {
	return func(yield func(sdka2a.Event, error) bool) {
		c, err := h.call(ctx)
		var in *SpecReq
		if err == nil {
			in, err = via[SpecReq](req)
		}
		var st *a2a.Stream
		if err == nil {
			st, err = open(ctx, c, in)
		}
		if err != nil {
			yield(nil, h.fail(err))
			return
		}
		defer st.Close()
		for {
			v, err := st.Next(ctx)
			if errors.Is(err, io.EOF) {
				return
			}
			var e *sdka2a.StreamResponse
			if err == nil {
				e, err = via[sdka2a.StreamResponse](v)
			}
			if err != nil {
				yield(nil, h.fail(err))
				return
			}
			if !yield(e.Event, nil) {
				return
			}
		}
	}
}

// GetTaskPushConfig implements a2asrv.RequestHandler.
func (h *handler) GetTaskPushConfig(ctx context.Context, req *sdka2a.GetTaskPushConfigRequest) (*sdka2a.PushConfig, error) {
	return do[sdka2a.PushConfig](h, ctx, req, h.s.GetPushConfig)
}

// ListTaskPushConfigs implements a2asrv.RequestHandler.
func (h *handler) ListTaskPushConfigs(ctx context.Context, req *sdka2a.ListTaskPushConfigRequest) (*sdka2a.ListTaskPushConfigResponse, error) {
	return do[sdka2a.ListTaskPushConfigResponse](h, ctx, req, h.s.ListPushConfigs)
}

// CreateTaskPushConfig implements a2asrv.RequestHandler.
func (h *handler) CreateTaskPushConfig(ctx context.Context, req *sdka2a.PushConfig) (*sdka2a.PushConfig, error) {
	return do[sdka2a.PushConfig](h, ctx, req, h.s.CreatePushConfig)
}

// DeleteTaskPushConfig implements a2asrv.RequestHandler.
func (h *handler) DeleteTaskPushConfig(ctx context.Context, req *sdka2a.DeleteTaskPushConfigRequest) error {
	_, err := do[struct{}](h, ctx, req, func(ctx context.Context, c a2a.Call, req *spec.GetPushConfigRequest) (struct{}, error) {
		return struct{}{}, h.s.DeletePushConfig(ctx, c, req)
	})
	return err
}

// GetExtendedAgentCard implements a2asrv.RequestHandler.
func (h *handler) GetExtendedAgentCard(ctx context.Context, req *sdka2a.GetExtendedAgentCardRequest) (*sdka2a.AgentCard, error) {
	return do[sdka2a.AgentCard](h, ctx, req, h.s.ExtendedCard)
}

// sentinels are the SDK's errors by our reasons.
var sentinels = map[string]error{
	spec.ErrTaskNotFound.Reason:      sdka2a.ErrTaskNotFound,
	spec.ErrTaskNotCancelable.Reason: sdka2a.ErrTaskNotCancelable,
	spec.ErrPushNotSupported.Reason:  sdka2a.ErrPushNotificationNotSupported,
	spec.ErrUnsupported.Reason:       sdka2a.ErrUnsupportedOperation,
	spec.ErrContentType.Reason:       sdka2a.ErrUnsupportedContentType,
	spec.ErrInvalidResponse.Reason:   sdka2a.ErrInvalidAgentResponse,
	spec.ErrNoExtendedCard.Reason:    sdka2a.ErrExtendedCardNotConfigured,
	spec.ErrExtension.Reason:         sdka2a.ErrExtensionSupportRequired,
	spec.ErrVersion.Reason:           sdka2a.ErrVersionNotSupported,
	spec.ErrParse.Reason:             sdka2a.ErrParseError,
	spec.ErrRequest.Reason:           sdka2a.ErrInvalidRequest,
	spec.ErrMethod.Reason:            sdka2a.ErrMethodNotFound,
	spec.ErrInvalidParams.Reason:     sdka2a.ErrInvalidParams,
	spec.ErrUnauthenticated.Reason:   sdka2a.ErrUnauthenticated,
	spec.ErrForbidden.Reason:         sdka2a.ErrUnauthorized,
}

// states are errors that the SDK does not know and gRPC does, by the names of
// their status.
var states = map[string]codes.Code{
	"UNAVAILABLE": codes.Unavailable, "RESOURCE_EXHAUSTED": codes.ResourceExhausted,
	"UNAUTHENTICATED": codes.Unauthenticated, "PERMISSION_DENIED": codes.PermissionDenied,
}

// fail is an error as the adapter of h understands it: that of gRPC also knows
// gRPC's own, which say whether a call may be tried again.
func (h *handler) fail(err error) error {
	var known *spec.Error
	if h.old || !errors.As(err, &known) || sentinels[known.Reason] != nil {
		return sdkError(err)
	}
	code, ok := states[known.Status]
	if !ok {
		return sdkError(err)
	}
	st, err := status.New(code, known.Message).WithDetails(&errdetails.ErrorInfo{Reason: known.Reason, Domain: spec.Domain, Metadata: known.Info})
	if err != nil {
		return sdkError(known)
	}
	return st.Err()
}

// sdkError is an error as the SDK's adapters understand it. What is only the
// server's is kept from the client.
func sdkError(err error) error {
	var known *spec.Error
	var theirs *sdka2a.Error
	switch {
	case err == nil || errors.As(err, &theirs) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return err
	case !errors.As(err, &known):
		if errors.Is(err, sdka2a.ErrInvalidParams) || errors.Is(err, sdka2a.ErrInvalidAgentResponse) {
			return err
		}
		return sdka2a.NewError(sdka2a.ErrInternalError, spec.ErrInternal.Message)
	}
	sentinel := sentinels[known.Reason]
	if sentinel == nil {
		sentinel = sdka2a.ErrInternalError
	}
	out := sdka2a.NewError(sentinel, known.Message)
	if len(known.Violations) > 0 {
		var list []any
		for _, v := range known.Violations {
			list = append(list, map[string]any{"field": v.Field, "description": v.Description})
		}
		out.TypedDetails = append(out.TypedDetails, &errordetails.Typed{
			TypeURL: "type.googleapis.com/google.rpc.BadRequest", Value: map[string]any{"fieldViolations": list},
		})
	}
	if len(known.Info) > 0 {
		out = out.WithErrorInfoMeta(known.Info)
	}
	return out
}
