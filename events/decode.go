package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

var errNoType = errors.New("no type")

// ParseLine reads a line written by AppendLine, or the payload of a frame. A
// type this version does not know becomes Unknown; unknown fields stay in Raw.
// A known type whose data does not fit becomes Unknown too, so that one odd
// field never loses an event.
//
// It keeps nothing of line. That of a delta takes the short way of ParseDelta.
func ParseLine(line []byte) (Event, error) {
	if e, ok := ParseDelta(line); ok {
		at := bytes.Index(line, []byte(lineData)) + len(lineData)
		e.Raw = bytes.Clone(line[at : len(line)-1])
		return e, nil
	}
	return parseLine(line)
}

// parseLine is ParseLine for whatever is JSON.
func parseLine(line []byte) (Event, error) {
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

// LineType finds the type in a line that AppendLine wrote, without reading the
// rest of it; nil where there is none. It is a part of line.
func LineType(line []byte) []byte {
	rest, _ := bytes.CutPrefix(line, []byte{'{'})
	rest = skipNumber(rest, `"id":`)
	rest = skipNumber(rest, `"ts":`)
	rest, ok := bytes.CutPrefix(rest, []byte(`"type":"`))
	n := bytes.IndexByte(rest, '"')
	if !ok || n < 0 {
		return nil
	}
	return rest[:n]
}

// skipNumber goes behind a member of an object, if it is the next.
func skipNumber(rest []byte, key string) []byte {
	number, ok := bytes.CutPrefix(rest, []byte(key))
	if i := bytes.IndexByte(number[:min(len(number), 20)], ','); ok && i >= 0 {
		return number[i+1:]
	}
	return rest
}
