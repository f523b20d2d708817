package adapter

import (
	"context"
	"encoding/json"
	"time"

	"innerd/events/journal"
	"innerd/runs"
	"innerd/runs/history"
	"innerd/toolbridge"
)

// Runs is what the adapter asks of package runs. FromManager makes it of the
// real one. Its errors are those of the Manager's methods.
type Runs interface {
	Start(ctx context.Context, owner string, spec runs.Spec) (run Run, created bool, err error)
	Get(owner, id string) (Run, error)
	List(owner string, q runs.Query) (tasks []runs.Task, next string, err error)
	Delete(owner, id string) error
	Conversations(owner string) []runs.ConversationInfo
	CloseConversation(ctx context.Context, owner, id string) (runs.ConversationInfo, error)
	CompactConversation(ctx context.Context, owner, id string) (runs.ConversationInfo, error)
	Steer(ctx context.Context, owner, taskID string, msgs []history.Message) (Run, error)
	Backends(ctx context.Context) []runs.BackendInfo
	ToolResult(owner, callID string, r toolbridge.Result) toolbridge.Verdict
	Answer(owner, taskID, requestID string, r toolbridge.Reply) (Run, error)
	ReplyText(owner, taskID, requestID, text string, metadata json.RawMessage) (Run, error)
}

// Run is one turn, live or ended.
type Run interface {
	ID() string
	Log() *journal.Log
	Attach() (detach func())
	OpenToolRequests() bool
	Cancel(ctx context.Context, reason string) (ended bool, err error)
	Done() <-chan struct{}
	Weight() int64 // about how many bytes its task may have, at the most
	TaskFor(ctx context.Context) (runs.Task, error)
	Started() time.Time
}

// FromManager is a Manager as the adapter sees it.
func FromManager(m *runs.Manager) Runs { return manager{m} }

type manager struct{ *runs.Manager }

func (m manager) Start(ctx context.Context, owner string, spec runs.Spec) (Run, bool, error) {
	run, created, err := m.Manager.Start(ctx, owner, spec)
	if err != nil {
		return nil, false, err
	}
	return run, created, nil
}

func (m manager) Get(owner, id string) (Run, error) { return runOf(m.Manager.Get(owner, id)) }

func (m manager) Steer(ctx context.Context, owner, taskID string, msgs []history.Message) (Run, error) {
	return runOf(m.Manager.Steer(ctx, owner, taskID, msgs))
}

func (m manager) Answer(owner, taskID, requestID string, r toolbridge.Reply) (Run, error) {
	return runOf(m.Manager.Answer(owner, taskID, requestID, r))
}

func (m manager) ReplyText(owner, taskID, requestID, text string, metadata json.RawMessage) (Run, error) {
	return runOf(m.Manager.ReplyText(owner, taskID, requestID, text, metadata))
}

// runOf never gives a nil *runs.Run that is no nil Run.
func runOf(run *runs.Run, err error) (Run, error) {
	if err != nil {
		return nil, err
	}
	return run, nil
}
