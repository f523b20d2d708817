package claudecode

import (
	"time"

	"innerd/backends"
	"innerd/backends/internal/told"
	"innerd/events"
)

// Blocks of a user message.
type inBlock struct {
	Type   string    `json:"type"`
	Text   string    `json:"text,omitempty"`
	Source *inSource `json:"source,omitempty"`
	Title  string    `json:"title,omitempty"`
}

type inSource struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type"`
	Data      string `json:"data"`
}

// content is the user message of a turn: what is to be told first, then the
// prompt's parts in their order.
func (c *conversation) content(in *backends.Input) ([]inBlock, error) {
	var blocks []inBlock
	if in.History != "" {
		blocks = append(blocks, textBlock(in.History))
	}
	for i, p := range in.Parts {
		x, err := c.reader().Piece(i, p)
		if err != nil {
			return nil, &backends.Error{Type: events.ErrInvalidRequest, Message: err.Error()}
		}
		if !x.Blank() { // the API takes no empty text
			blocks = append(blocks, blockOf(x))
		}
	}
	if len(blocks) == 0 {
		blocks = append(blocks, textBlock(told.Empty))
	}
	return blocks, nil
}

func (c *conversation) reader() told.Reader {
	return told.Reader{Kept: c.b.kept(), Conversation: c.cfg.ID, Documents: true}
}

func (b *Backend) kept() told.Kept { return told.Kept{Files: b.o.Children, Home: b.configDir()} }

// Forget implements backends.Forgetter.
func (b *Backend) Forget(conversation string) error { return b.kept().Forget(conversation) }

// ForgetOld implements backends.Forgetter.
func (b *Backend) ForgetOld(before time.Time, known func(string) bool) error {
	return b.kept().ForgetOld(before, known)
}

func textBlock(s string) inBlock { return inBlock{Type: "text", Text: s} }

func blockOf(x told.Piece) inBlock {
	switch {
	case x.Data == "":
		return textBlock(x.Text)
	case x.Document:
		return inBlock{Type: "document", Title: x.Name, Source: &inSource{"base64", x.MimeType, x.Data}}
	}
	return inBlock{Type: "image", Source: &inSource{"base64", x.MimeType, x.Data}}
}
