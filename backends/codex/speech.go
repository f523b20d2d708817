package codex

import (
	"strconv"
	"strings"

	"innerd/events"
)

// speech is what is open towards the host: one message or one block of
// reasoning, an item of codex's.
type speech struct {
	id        string // ours
	item      string // codex's
	reasoning bool
	part      int  // of the summary that streams
	whole     bool // the item was completed; it waits for what comes next
	text      strings.Builder
}

// speaker keeps the rules of the stream: one thing open at a time, at least
// one delta in each, a close or a discard for each. A whole message stays open
// until something else comes, since the last one says why the turn ended.
type speaker struct {
	emit func(events.Data)
	open *speech
	n    int    // ids given
	last string // the whole text of the last message that was closed
}

// say opens what is needed and sends a piece of an item.
func (s *speaker) say(reasoning bool, item, text string) {
	if text == "" {
		return
	}
	if s.open != nil && s.open.item != item {
		s.next()
	}
	if s.open == nil {
		s.n++
		s.open = &speech{id: speechID(reasoning, s.n), item: item, reasoning: reasoning}
	}
	s.open.text.WriteString(text)
	if s.open.reasoning {
		s.emit(events.ReasoningDelta{Delta: text, ReasoningID: s.open.id})
		return
	}
	s.emit(events.MessageDelta{Delta: text, MessageID: s.open.id})
}

func speechID(reasoning bool, n int) string {
	if reasoning {
		return "r" + strconv.Itoa(n)
	}
	return "m" + strconv.Itoa(n)
}

// confirm takes an item as it ended. A stream that lost a part is completed;
// one that said something else is taken back and said again.
func (s *speaker) confirm(reasoning bool, item, whole string) {
	said := ""
	if s.open != nil && s.open.item == item {
		said = s.open.text.String()
	}
	switch {
	case whole == "" || said == whole:
	case strings.HasPrefix(whole, said):
		s.say(reasoning, item, whole[len(said):])
	default:
		s.takeBack("the agent said it differently in the end")
		s.say(reasoning, item, whole)
	}
	if s.open != nil && s.open.item == item {
		s.open.whole = true
	}
}

// next is called before something else comes: what is whole is closed, what is
// not was cut, by a retry or by a steer, and will be said anew.
func (s *speaker) next() {
	if s.open != nil && !s.open.whole {
		s.takeBack("the model's stream was cut")
	}
	s.close("", false)
}

// takeBack discards what is open.
func (s *speaker) takeBack(reason string) {
	o := s.open
	if o == nil {
		return
	}
	s.open = nil
	if o.reasoning {
		s.emit(events.Discarded{ReasoningID: o.id, Reason: reason})
		return
	}
	s.emit(events.Discarded{MessageID: o.id, Reason: reason})
}

// close ends what is open.
func (s *speaker) close(finish string, partial bool) {
	o := s.open
	if o == nil {
		return
	}
	s.open = nil
	if o.reasoning {
		s.emit(events.Reasoning{ReasoningID: o.id})
		return
	}
	s.last = o.text.String()
	s.emit(events.Message{MessageID: o.id, FinishReason: finish, Partial: partial && !o.whole})
}
