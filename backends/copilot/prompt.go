package copilot

import (
	"errors"
	"strings"
	"time"

	"innerd/backends"
	"innerd/backends/internal/told"
	"innerd/events"
)

// prompt is the input of a turn: what is to be told first, then the prompt's
// parts in their order. Images stand behind the text.
type prompt struct {
	text   []string
	images []attachment
}

func (p *prompt) String() string {
	if len(p.text) == 0 {
		return told.Empty
	}
	return strings.Join(p.text, "\n\n")
}

func (c *conversation) prompt(history string, parts []events.Part) (*prompt, error) {
	p := new(prompt)
	p.add(history)
	for i, part := range parts {
		x, err := c.reader().Piece(i, part)
		if err != nil {
			return nil, &backends.Error{Type: events.ErrInvalidRequest, Message: err.Error()}
		}
		if x.Data == "" {
			p.add(x.Text)
			continue
		}
		p.images = append(p.images, attachment{Type: "blob", Data: x.Data, MimeType: x.MimeType, DisplayName: orElse(x.Name, "image")})
	}
	return p, nil
}

func (p *prompt) add(text string) {
	if strings.TrimSpace(text) != "" {
		p.text = append(p.text, text)
	}
}

func (c *conversation) reader() told.Reader {
	return told.Reader{Kept: c.b.kept(), Conversation: c.cfg.ID}
}

func (b *Backend) kept() told.Kept { return told.Kept{Files: b.o.Children, Home: b.home()} }

// Forget implements backends.Forgetter.
func (b *Backend) Forget(conversation string) error { return b.kept().Forget(conversation) }

// ForgetOld implements backends.Forgetter. What a killed server's conversations
// have left beside their attachments is removed whatever its age.
func (b *Backend) ForgetOld(before time.Time, known func(string) bool) error {
	return errors.Join(b.kept().ForgetOld(before, known), b.forgetLeft())
}
