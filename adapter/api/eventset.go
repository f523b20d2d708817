package api

import (
	"encoding/json"
	"slices"

	"innerd/events"
)

// Words that stand for several types in metadata.events.
const (
	EventsBasic = "basic" // what a stream carries when nothing is asked for
	EventsAll   = "all"
	EventsAsk   = "ask" // permission.*
)

// Events says which types of events a stream shall carry beside the basic
// ones: EventsAll, EventsAsk, or types by name. Nil: the basic ones alone.
type Events []string

// MarshalJSON gives one word as a string, more as a list.
func (e Events) MarshalJSON() ([]byte, error) {
	if len(e) == 1 {
		return json.Marshal(e[0])
	}
	return json.Marshal([]string(e))
}

// UnmarshalJSON reads a word or a list.
func (e *Events) UnmarshalJSON(raw []byte) error {
	s := strict{fields: map[string]json.RawMessage{"events": raw}}
	*e = s.events("events")
	return s.err
}

func knownEvents(word string) bool {
	switch word {
	case EventsBasic, EventsAll, EventsAsk:
		return true
	}
	return slices.Contains(events.Types(), events.Type(word))
}

// Filter is which types a stream of this request carries; nil is all of them.
// A run that asks for permissions always shows them.
func (m *Metadata) Filter() func(events.Type) bool {
	extra := map[events.Type]bool{}
	ask := m.PermissionMode == PermissionAsk
	for _, w := range m.Events {
		switch w {
		case EventsAll:
			return nil
		case EventsAsk:
			ask = true
		case EventsBasic:
		default:
			extra[events.Type(w)] = true
		}
	}
	if ask {
		extra[events.TypePermissionRequest] = true
		extra[events.TypePermissionResolved] = true
	}
	return func(t events.Type) bool { return t.Basic() || extra[t] }
}
