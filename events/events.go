// Package events is what can happen in a run: the vocabulary of the host-loop
// profile as Go types, and the one encoding of an event, which is at once a
// line of the journal and the payload of an SSE frame.
//
// It imports nothing of this module and builds on every platform, since hosts
// read the same types.
package events

import "encoding/json"

// Event is one thing that happened in a run.
//
// Backends fill in Data alone; the run's log gives ID and TS when it appends.
type Event struct {
	ID   int64           // position in the run, from 1 without holes; 0 when not in a log (a heartbeat)
	TS   int64           // Unix milliseconds at which the log took it
	Data Data            // what happened; never nil once logged
	Raw  json.RawMessage // the data object as it was read, with the fields this version does not know; nil when not decoded
}

// Type is the event's type, "" for an event without data.
func (e Event) Type() Type {
	if e.Data == nil {
		return ""
	}
	return e.Data.EventType()
}

// Data is the payload of one type of event. The types of this package
// implement it by value; Unknown holds every other.
type Data interface{ EventType() Type }

// Type names an event on the wire.
type Type string

// The types of the host-loop profile.
const (
	TypeTaskID             Type = "session.task_id"
	TypeReasoningDelta     Type = "assistant.reasoning_delta"
	TypeReasoning          Type = "assistant.reasoning"
	TypeMessageDelta       Type = "assistant.message_delta"
	TypeMessage            Type = "assistant.message"
	TypeDiscarded          Type = "assistant.discarded"
	TypeToolCall           Type = "assistant.tool_call"
	TypeToolUpdate         Type = "tool.execution_update"
	TypeToolComplete       Type = "tool.execution_complete"
	TypeToolRequest        Type = "tool.execution_request"
	TypeToolResolved       Type = "tool.execution_resolved"
	TypePermissionRequest  Type = "permission.request"
	TypePermissionResolved Type = "permission.resolved"
	TypeInputRequired      Type = "session.input_required"
	TypeInputResolved      Type = "session.input_resolved"
	TypeDamaged            Type = "log.damaged"
	TypeStatus             Type = "session.status"
	TypeSteered            Type = "session.steered"
	TypePlan               Type = "session.plan"
	TypeFileChange         Type = "file.change"
	TypeSubagentStart      Type = "subagent.start"
	TypeSubagentDelta      Type = "subagent.delta"
	TypeSubagentComplete   Type = "subagent.complete"
	TypeTurnUsage          Type = "session.turn_usage"
	TypeUsage              Type = "assistant.usage"
	TypeError              Type = "session.error"
	TypeEnd                Type = "session.end"
	TypeHeartbeat          Type = "heartbeat"
)

// Basic reports whether a POST's stream carries the type when the request
// does not ask for more.
func (t Type) Basic() bool {
	switch t {
	case TypeTaskID, TypeReasoningDelta, TypeReasoning, TypeMessageDelta, TypeMessage, TypeDiscarded,
		TypeToolCall, TypeToolRequest, TypeInputRequired, TypeUsage, TypeError, TypeEnd, TypeHeartbeat:
		return true
	}
	return false
}

// Types lists every type of the profile, in the order of its table.
func Types() []Type {
	return []Type{
		TypeTaskID, TypeReasoningDelta, TypeReasoning, TypeMessageDelta, TypeMessage, TypeDiscarded,
		TypeToolCall, TypeToolUpdate, TypeToolComplete, TypeToolRequest, TypeToolResolved,
		TypePermissionRequest, TypePermissionResolved, TypeInputRequired, TypeInputResolved, TypeDamaged,
		TypeStatus, TypeSteered, TypePlan, TypeFileChange, TypeSubagentStart, TypeSubagentDelta, TypeSubagentComplete,
		TypeTurnUsage, TypeUsage, TypeError, TypeEnd, TypeHeartbeat,
	}
}

// The URIs of the extensions that events name.
const (
	ReasoningExtension = "urn:ii-agent:extensions:reasoning/v1"
	TelemetryExtension = "urn:ii-agent:extensions:tool-telemetry/v1"
)

// Extension marks an event as using an A2A extension.
type Extension struct {
	URI  string          `json:"uri"`
	Data json.RawMessage `json:"data,omitempty"`
}

// Unknown is an event of a type this version does not know, kept as it came.
type Unknown struct {
	Type Type
	Raw  json.RawMessage
}

// EventType implements Data.
func (u Unknown) EventType() Type { return u.Type }

// MarshalJSON gives the data object as it came.
func (u Unknown) MarshalJSON() ([]byte, error) {
	if len(u.Raw) == 0 {
		return []byte("{}"), nil
	}
	return u.Raw, nil
}
