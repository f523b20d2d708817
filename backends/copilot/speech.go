package copilot

import (
	"strconv"
	"strings"

	"innerd/events"
)

// speech is what is open towards the host: one message or one block of
// reasoning. Text counts as said when copilot has confirmed its message; what
// streams before that may be taken back.
type speech struct {
	id        string
	reasoning bool
	kept      strings.Builder // confirmed
	piece     strings.Builder // of the model's answer that streams
}

// speaker keeps the rules of the stream: one thing open at a time, at least
// one delta in each, a close or a discard for each.
type speaker struct {
	emit func(events.Data)
	open *speech
	n    int    // ids given
	last string // the last message that was closed
}

// say opens what is needed and sends a piece of the answer that streams.
func (s *speaker) say(reasoning bool, text string) {
	if text == "" {
		return
	}
	if s.open != nil && s.open.reasoning != reasoning {
		s.close("", false)
	}
	if s.open == nil {
		s.n++
		s.open = &speech{id: speechID(reasoning, s.n), reasoning: reasoning}
	}
	s.open.piece.WriteString(text)
	if reasoning {
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

// streaming reports whether a piece of a message waits for its confirmation.
func (s *speaker) streaming() bool {
	return s.open != nil && !s.open.reasoning && s.open.piece.Len() > 0
}

// confirm makes the piece that streams final, as whole. A stream that lost a
// part is completed; one that said something else is taken back and said again.
func (s *speaker) confirm(whole string) {
	piece := s.open.piece.String()
	switch {
	case piece == whole:
	case strings.HasPrefix(whole, piece):
		s.say(false, whole[len(piece):])
	default:
		s.takeBack("the agent said it differently in the end")
		s.say(false, whole)
	}
	s.keep()
}

// keep confirms what streamed as it is.
func (s *speaker) keep() {
	if s.open == nil {
		return
	}
	s.open.kept.WriteString(s.open.piece.String())
	s.open.piece.Reset()
}

// takeBack discards the piece that streams. Confirmed text of the same message
// is said again at once, under a new id.
func (s *speaker) takeBack(reason string) {
	if s.open == nil || s.open.piece.Len() == 0 {
		return
	}
	old := s.open
	s.open = nil
	if old.reasoning {
		s.emit(events.Discarded{ReasoningID: old.id, Reason: reason})
	} else {
		s.emit(events.Discarded{MessageID: old.id, Reason: reason})
	}
	if old.kept.Len() > 0 {
		s.say(old.reasoning, old.kept.String())
		s.keep()
	}
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
	s.last = o.kept.String() + o.piece.String()
	s.emit(events.Message{MessageID: o.id, FinishReason: finish, Partial: partial})
}
