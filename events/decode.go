package events

import (
	"encoding/json"
	"errors"
	"fmt"
)

var errNoType = errors.New("no type")

// ParseLine reads a line written by AppendLine, or the payload of a frame. A
// type this version does not know becomes Unknown; unknown fields stay in Raw.
// A known type whose data does not fit becomes Unknown too, so that one odd
// field never loses an event.
func ParseLine(line []byte) (Event, error) {
	var env struct {
		ID   int64           `json:"id"`
		TS   int64           `json:"ts"`
		Type Type            `json:"type"`
		Data json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(line, &env); err != nil {
		return Event{}, fmt.Errorf("events: %w", err)
	}
	if env.Type == "" {
		return Event{}, fmt.Errorf("events: %w", errNoType)
	}
	return Event{ID: env.ID, TS: env.TS, Data: Decode(env.Type, env.Data), Raw: env.Data}, nil
}

// Decode makes the payload of a type from its JSON object.
func Decode(t Type, raw json.RawMessage) Data {
	if dec, ok := decoders[t]; ok {
		if d, err := dec(raw); err == nil {
			return d
		}
	}
	return Unknown{Type: t, Raw: raw}
}

var decoders = map[Type]func(json.RawMessage) (Data, error){
	TypeTaskID:             into[TaskID],
	TypeReasoningDelta:     into[ReasoningDelta],
	TypeReasoning:          into[Reasoning],
	TypeMessageDelta:       into[MessageDelta],
	TypeMessage:            into[Message],
	TypeDiscarded:          into[Discarded],
	TypeToolCall:           into[ToolCall],
	TypeToolUpdate:         into[ToolUpdate],
	TypeToolComplete:       into[ToolComplete],
	TypeToolRequest:        into[ToolRequest],
	TypeToolResolved:       into[ToolResolved],
	TypePermissionRequest:  into[PermissionRequest],
	TypePermissionResolved: into[PermissionResolved],
	TypeInputRequired:      into[InputRequired],
	TypeInputResolved:      into[InputResolved],
	TypeDamaged:            into[Damaged],
	TypeStatus:             into[Status],
	TypeSteered:            into[Steered],
	TypePlan:               into[Plan],
	TypeFileChange:         into[FileChange],
	TypeSubagentStart:      into[SubagentStart],
	TypeSubagentDelta:      into[SubagentDelta],
	TypeSubagentComplete:   into[SubagentComplete],
	TypeTurnUsage:          into[TurnUsage],
	TypeUsage:              into[Usage],
	TypeError:              into[Error],
	TypeEnd:                into[End],
	TypeHeartbeat:          into[Heartbeat],
}

func into[T Data](raw json.RawMessage) (Data, error) {
	var v T
	if len(raw) == 0 {
		return v, nil
	}
	err := json.Unmarshal(raw, &v)
	return v, err
}
