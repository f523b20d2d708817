package codex

import (
	"time"

	"innerd/backends"
	"innerd/backends/internal/told"
	"innerd/events"
)

func textInput(s string) userInput { return userInput{Type: "text", Text: s} }

// content is the input of a turn: what is to be told first, then the prompt's
// parts in their order.
func (c *conversation) content(in *backends.Input) ([]userInput, error) {
	var out []userInput
	if in.History != "" {
		out = append(out, textInput(in.History))
	}
	for i, p := range in.Parts {
		x, err := c.reader().Piece(i, p)
		if err != nil {
			return nil, &backends.Error{Type: events.ErrInvalidRequest, Message: err.Error()}
		}
		switch {
		case x.Data != "":
			out = append(out, userInput{Type: "image", URL: dataURL(x.MimeType, x.Data)})
		case !x.Blank():
			out = append(out, textInput(x.Text))
		}
	}
	if len(out) == 0 {
		out = append(out, textInput(told.Empty))
	}
	return out, nil
}

func (c *conversation) reader() told.Reader {
	return told.Reader{Kept: c.b.kept(), Conversation: c.cfg.ID}
}

func (b *Backend) kept() told.Kept { return told.Kept{Files: b.o.Children, Home: b.codexHome()} }

// Forget implements backends.Forgetter.
func (b *Backend) Forget(conversation string) error { return b.kept().Forget(conversation) }

// ForgetOld implements backends.Forgetter.
func (b *Backend) ForgetOld(before time.Time, known func(string) bool) error {
	return b.kept().ForgetOld(before, known)
}
