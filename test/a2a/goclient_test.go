package a2a_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
	a2agrpc "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"innerd/adapter"
	"innerd/test/a2a/rig"
)

const goKey = "dummy-go-key"

// TestGoClient drives the server with the official Go client.
func TestGoClient(t *testing.T) {
	s := start(t, rig.Options{GRPC: "127.0.0.1:0", Delay: 200 * time.Millisecond, Keys: []adapter.Key{adapter.NewKey("go", goKey)}})
	card, err := agentcard.NewResolver(nil).Resolve(t.Context(), s.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, binding := range []sdk.TransportProtocol{sdk.TransportProtocolJSONRPC, sdk.TransportProtocolHTTPJSON, sdk.TransportProtocolGRPC} {
		t.Run(strings.ToLower(string(binding)), func(t *testing.T) {
			only := *card
			only.SupportedInterfaces = slices.DeleteFunc(slices.Clone(card.SupportedInterfaces), func(i *sdk.AgentInterface) bool { return i.ProtocolBinding != binding })
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			ctx = a2aclient.AttachServiceParams(ctx, a2aclient.ServiceParams{"authorization": {"Bearer " + goKey}})
			c, err := a2aclient.NewFromCard(ctx, &only, a2agrpc.WithGRPCTransport(grpc.WithTransportCredentials(insecure.NewCredentials())))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Destroy() //nolint:errcheck // the test is over
			g := goDriver{t, ctx, c, binding}
			g.sends()
			g.streams()
			g.waits()
			g.lists()
			g.pushes()
			g.errors()
		})
	}
}

type goDriver struct {
	t       *testing.T
	ctx     context.Context
	c       *a2aclient.Client
	binding sdk.TransportProtocol
}

func (g goDriver) message(prefix string, change ...func(*sdk.Message)) *sdk.SendMessageRequest {
	m := sdk.NewMessage(sdk.MessageRoleUser, sdk.NewTextPart("hello"))
	m.ID = prefix + "-" + m.ID
	for _, f := range change {
		f(m)
	}
	return &sdk.SendMessageRequest{Message: m}
}

func (g goDriver) send(req *sdk.SendMessageRequest) *sdk.Task {
	g.t.Helper()
	r, err := g.c.SendMessage(g.ctx, req)
	if err != nil {
		g.t.Fatalf("send %s: %v", req.Message.ID, err)
	}
	task, ok := r.(*sdk.Task)
	if !ok {
		g.t.Fatalf("send %s: %T", req.Message.ID, r)
	}
	return task
}

func (g goDriver) is(task *sdk.Task, want sdk.TaskState) *sdk.Task {
	g.t.Helper()
	if task.Status.State != want {
		g.t.Errorf("state %s, want %s", task.Status.State, want)
	}
	return task
}

func (g goDriver) sends() {
	task := g.is(g.send(g.message("tck-artifact-text")), sdk.TaskStateCompleted)
	if got := task.Artifacts[0].Parts[0].Text(); got != "Generated text content" {
		g.t.Errorf("artifact %q", got)
	}
	if got := g.send(g.message("tck-artifact-file")).Artifacts[0].Parts[0]; string(got.Raw()) != "file content" || got.Filename != "output.txt" {
		g.t.Errorf("file %+v", got)
	}
	r, err := g.c.SendMessage(g.ctx, g.message("tck-message-response"))
	if m, ok := r.(*sdk.Message); err != nil || !ok || m.Parts[0].Text() != "Direct message response" {
		g.t.Errorf("message response: %#v %v", r, err)
	}
	g.is(g.send(g.message("tck-reject-task")), sdk.TaskStateRejected)
	got, err := g.c.GetTask(g.ctx, &sdk.GetTaskRequest{ID: task.ID})
	if err != nil || got.ID != task.ID || len(got.History) != 1 {
		g.t.Errorf("get: %+v %v", got, err)
	}
	if card, err := g.c.GetExtendedAgentCard(g.ctx, &sdk.GetExtendedAgentCardRequest{}); err != nil || len(card.Skills) < 2 {
		g.t.Errorf("extended card: %+v %v", card, err)
	}
}

// collect reads a stream and gives its task's last state and its text.
func (g goDriver) collect(seq func(yield func(sdk.Event, error) bool), on func(sdk.Event)) (state sdk.TaskState, text string, first sdk.Event) {
	g.t.Helper()
	for e, err := range seq {
		if err != nil {
			g.t.Errorf("stream: %v", err)
			return state, text, first
		}
		if first == nil {
			first = e
		}
		switch e := e.(type) {
		case *sdk.Task:
			state = e.Status.State
			for _, a := range e.Artifacts {
				text += a.Parts[0].Text()
			}
		case *sdk.TaskStatusUpdateEvent:
			state = e.Status.State
		case *sdk.TaskArtifactUpdateEvent:
			text += e.Artifact.Parts[0].Text()
		}
		if on != nil {
			on(e)
		}
	}
	return state, text, first
}

func (g goDriver) streams() {
	state, text, first := g.collect(g.c.SendStreamingMessage(g.ctx, g.message("tck-stream-001")), nil)
	if _, ok := first.(*sdk.Task); !ok || state != sdk.TaskStateCompleted || text != "Stream hello from TCK" {
		g.t.Errorf("stream: %T %s %q", first, state, text)
	}
	// A stream that its reader leaves; the task goes on, and a new one has all.
	ctx, drop := context.WithCancel(g.ctx)
	var id sdk.TaskID
	gate := fmt.Sprintf(".go-%s.", g.binding)
	for e, err := range g.c.SendStreamingMessage(ctx, g.message("innerd-gated"+gate)) {
		if err != nil {
			break
		}
		id = e.TaskInfo().TaskID
		if _, ok := e.(*sdk.TaskArtifactUpdateEvent); ok {
			drop()
		}
	}
	drop()
	state, text, _ = g.collect(g.c.SubscribeToTask(g.ctx, &sdk.SubscribeToTaskRequest{ID: id}), func(e sdk.Event) {
		if _, ok := e.(*sdk.Task); ok { // it is there again
			g.send(g.message("innerd-open" + gate))
		}
	})
	if want := "still working 0still working 1"; state != sdk.TaskStateCompleted || !strings.HasPrefix(text, want) || !strings.HasSuffix(text, "still working 9") {
		g.t.Errorf("after a drop: %s %q", state, text)
	}
}

func (g goDriver) waits() {
	task := g.is(g.send(g.message("tck-input-required")), sdk.TaskStateInputRequired)
	var wg sync.WaitGroup
	texts := make([]string, 2)
	ready := make(chan struct{}, 2)
	for i := range texts {
		wg.Go(func() { // ends with the task
			_, texts[i], _ = g.collect(g.c.SubscribeToTask(g.ctx, &sdk.SubscribeToTaskRequest{ID: task.ID}), func(e sdk.Event) {
				if _, ok := e.(*sdk.Task); ok {
					ready <- struct{}{}
				}
			})
		})
	}
	<-ready
	<-ready
	g.is(g.send(g.message("answer", func(m *sdk.Message) { m.TaskID = task.ID })), sdk.TaskStateCompleted)
	wg.Wait()
	if texts[0] != "Thank you: hello" || texts[0] != texts[1] {
		g.t.Errorf("two subscribers: %q", texts)
	}
	works := g.message("innerd-hold")
	works.Config = &sdk.SendMessageConfig{ReturnImmediately: true}
	held := g.send(works)
	canceled, err := g.c.CancelTask(g.ctx, &sdk.CancelTaskRequest{ID: held.ID})
	if err != nil {
		g.t.Fatal(err)
	}
	g.is(canceled, sdk.TaskStateCanceled)
}

func (g goDriver) lists() {
	contextID := fmt.Sprintf("go-%s-%d", g.binding, time.Now().UnixNano())
	var want []sdk.TaskID
	for range 3 {
		task := g.send(g.message("tck-complete-task", func(m *sdk.Message) { m.ContextID = contextID }))
		want = append([]sdk.TaskID{task.ID}, want...)
	}
	var got []sdk.TaskID
	for token := ""; ; {
		page, err := g.c.ListTasks(g.ctx, &sdk.ListTasksRequest{ContextID: contextID, PageSize: 2, PageToken: token})
		if err != nil {
			g.t.Fatal(err)
		}
		if page.TotalSize != 3 || page.PageSize != 2 {
			g.t.Errorf("sizes %d %d", page.TotalSize, page.PageSize)
		}
		for _, task := range page.Tasks {
			got = append(got, task.ID)
		}
		if token = page.NextPageToken; token == "" {
			break
		}
	}
	if !slices.Equal(got, want) {
		g.t.Errorf("list %v, want %v", got, want)
	}
}

func (g goDriver) pushes() {
	got := make(chan string, 100)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header.Get("A2A-Notification-Token") }))
	defer hook.Close()
	task := g.send(g.message("tck-input-required"))
	cfg := &sdk.PushConfig{TaskID: task.ID, ID: "p", URL: hook.URL, Token: "tok", Auth: &sdk.PushAuthInfo{Scheme: "Bearer", Credentials: "c"}}
	if made, err := g.c.CreateTaskPushConfig(g.ctx, cfg); err != nil || made.ID != "p" {
		g.t.Fatalf("create: %+v %v", made, err)
	}
	if one, err := g.c.GetTaskPushConfig(g.ctx, &sdk.GetTaskPushConfigRequest{TaskID: task.ID, ID: "p"}); err != nil || one.URL != hook.URL {
		g.t.Errorf("get: %+v %v", one, err)
	}
	if list, err := g.c.ListTaskPushConfigs(g.ctx, &sdk.ListTaskPushConfigRequest{TaskID: task.ID}); err != nil || len(list) != 1 {
		g.t.Errorf("list: %+v %v", list, err)
	}
	g.send(g.message("answer", func(m *sdk.Message) { m.TaskID = task.ID }))
	select {
	case token := <-got:
		if token != "tok" {
			g.t.Errorf("token %q", token)
		}
	case <-g.ctx.Done():
		g.t.Error("nothing was delivered")
	}
	for range 2 {
		if err := g.c.DeleteTaskPushConfig(g.ctx, &sdk.DeleteTaskPushConfigRequest{TaskID: task.ID, ID: "p"}); err != nil {
			g.t.Errorf("delete: %v", err)
		}
	}
	if _, err := g.c.GetTaskPushConfig(g.ctx, &sdk.GetTaskPushConfigRequest{TaskID: task.ID, ID: "p"}); !errors.Is(err, sdk.ErrTaskNotFound) {
		g.t.Errorf("a deleted one: %v", err)
	}
}

func (g goDriver) errors() {
	done := g.send(g.message("tck-complete-task"))
	_, notFound := g.c.GetTask(g.ctx, &sdk.GetTaskRequest{ID: "nope"})
	_, notCancelable := g.c.CancelTask(g.ctx, &sdk.CancelTaskRequest{ID: done.ID})
	_, unsupported := g.c.SendMessage(g.ctx, g.message("x", func(m *sdk.Message) { m.TaskID = done.ID }))
	_, media := g.c.SendMessage(g.ctx, g.message("x", func(m *sdk.Message) { m.Parts[0].MediaType = "application/x-unsupported" }))
	_, params := g.c.ListTasks(g.ctx, &sdk.ListTasksRequest{PageToken: "not one of ours"})
	_, tenant := g.c.SendMessage(g.ctx, &sdk.SendMessageRequest{Tenant: "nobody", Message: g.message("x").Message})
	for _, c := range []struct {
		got, want error
	}{
		{notFound, sdk.ErrTaskNotFound},
		{notCancelable, sdk.ErrTaskNotCancelable},
		{unsupported, sdk.ErrUnsupportedOperation},
		{media, sdk.ErrUnsupportedContentType},
		{params, sdk.ErrInvalidParams},
		{tenant, sdk.ErrInvalidParams},
	} {
		if !errors.Is(c.got, c.want) {
			g.t.Errorf("error %v, want %v", c.got, c.want)
		}
	}
	for _, err := range g.c.SubscribeToTask(g.ctx, &sdk.SubscribeToTaskRequest{ID: done.ID}) {
		if !errors.Is(err, sdk.ErrUnsupportedOperation) {
			g.t.Errorf("subscribe to an ended task: %v", err)
		}
	}
	// Another key, and none.
	for _, auth := range []string{"", "Bearer wrong"} {
		ctx := a2aclient.AttachServiceParams(context.WithoutCancel(g.t.Context()), a2aclient.ServiceParams{"authorization": {auth}})
		if _, err := g.c.GetTask(ctx, &sdk.GetTaskRequest{ID: done.ID}); err == nil {
			g.t.Errorf("let in with %q", auth)
		}
	}
}
