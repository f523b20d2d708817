package claudecode

import (
	"encoding/base64"
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"innerd/backends"
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

const (
	maxImage    = 10 << 20  // bytes; above, claude gets the path and can make it smaller
	maxInline   = 256 << 10 // of a text file that is put into the prompt
	emptyPrompt = "(empty message)"
)

// content is the user message of a turn: what is to be told first, then the
// prompt's parts in their order.
func (c *conversation) content(in *backends.Input) ([]inBlock, error) {
	var blocks []inBlock
	if in.History != "" {
		blocks = append(blocks, textBlock(in.History))
	}
	for i, p := range in.Parts {
		b, err := c.part(i, p)
		if err != nil {
			return nil, &backends.Error{Type: events.ErrInvalidRequest, Message: err.Error()}
		}
		if b.Type != "text" || strings.TrimSpace(b.Text) != "" { // the API takes no empty text
			blocks = append(blocks, b)
		}
	}
	if len(blocks) == 0 {
		blocks = append(blocks, textBlock(emptyPrompt))
	}
	return blocks, nil
}

func textBlock(s string) inBlock { return inBlock{Type: "text", Text: s} }

func (c *conversation) part(i int, p events.Part) (inBlock, error) {
	switch {
	case p.Type == events.PartText:
		return textBlock(p.Text), nil
	case p.Type == events.PartJSON:
		return textBlock(string(p.JSON)), nil
	case p.Type == events.PartImage:
		return c.image(i, p)
	case p.Path != "":
		return note(p, p.Path), nil
	case p.URL != "":
		return note(p, p.URL), nil
	}
	return c.file(i, p)
}

// note tells where a file is; claude reads it with its own tools.
func note(p events.Part, where string) inBlock {
	what := p.Type
	if p.Name != "" && filepath.Base(where) != p.Name {
		what += " " + p.Name
	}
	if p.MimeType != "" {
		what += " (" + p.MimeType + ")"
	}
	return textBlock(fmt.Sprintf("[attached %s: %s]", what, where))
}

func (c *conversation) image(i int, p events.Part) (inBlock, error) {
	data := p.Data
	if p.Path != "" {
		if !visible(p.MimeType) {
			return note(p, p.Path), nil
		}
		raw, err := c.b.o.Children.ReadFile(p.Path, maxImage)
		if err != nil {
			return note(p, p.Path), nil
		}
		data = base64.StdEncoding.EncodeToString(raw)
	}
	if data == "" {
		return note(p, p.URL), nil
	}
	if !visible(p.MimeType) || base64.StdEncoding.DecodedLen(len(data)) > maxImage {
		return c.keepFile(i, p)
	}
	return inBlock{Type: "image", Source: &inSource{"base64", orElse(p.MimeType, "image/png"), data}}, nil
}

// visible reports whether the model's API takes images of a type.
func visible(mime string) bool {
	switch mime {
	case "", "image/png", "image/jpeg", "image/gif", "image/webp":
		return true
	}
	return false
}

// file puts a document or a small text into the message, and keeps anything
// else where claude can read it.
func (c *conversation) file(i int, p events.Part) (inBlock, error) {
	if p.MimeType == "application/pdf" {
		return inBlock{Type: "document", Title: p.Name, Source: &inSource{"base64", p.MimeType, p.Data}}, nil
	}
	if base64.StdEncoding.DecodedLen(len(p.Data)) <= maxInline {
		raw, err := base64.StdEncoding.DecodeString(p.Data)
		if err == nil && utf8.Valid(raw) && !strings.ContainsRune(string(raw), 0) {
			return textBlock(fmt.Sprintf("[attached file %s]\n%s\n[end of %s]", p.Name, raw, p.Name)), nil
		}
	}
	return c.keepFile(i, p)
}

// keepFile writes an attachment below claude's folder and tells its path.
func (c *conversation) keepFile(i int, p events.Part) (inBlock, error) {
	raw, err := base64.StdEncoding.DecodeString(p.Data)
	if err != nil {
		return inBlock{}, fmt.Errorf("attachment %d is not base64: %w", i+1, err)
	}
	dir := filepath.Join(c.b.configDir(), "attachments", orElse(c.cfg.ID, "unnamed"))
	path := filepath.Join(dir, newUUID()[:8]+"-"+fileName(p))
	err = c.b.o.Children.MkdirAll(dir)
	if err == nil {
		err = c.b.o.Children.WriteFile(path, raw)
	}
	if err != nil {
		return inBlock{}, fmt.Errorf("attachment %d can't be kept: %w", i+1, err)
	}
	return note(p, path), nil
}

// fileName is a part's name without anything that could lead elsewhere.
func fileName(p events.Part) string {
	name := strings.Map(func(r rune) rune {
		if r == '/' || r == '\\' || r == '*' || r < ' ' {
			return '_'
		}
		return r
	}, p.Name)
	if name == "" {
		return p.Type
	}
	if len(name) > 100 {
		name = strings.ToValidUTF8(name[len(name)-100:], "_")
	}
	return name
}
