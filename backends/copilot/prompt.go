package copilot

import (
	"encoding/base64"
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"innerd/backends"
	"innerd/events"
)

const (
	maxImage    = 10 << 20  // bytes; above, copilot gets the path
	maxInline   = 256 << 10 // of a text file that is put into the prompt
	emptyPrompt = "(empty message)"
)

// prompt is the input of a turn: what is to be told first, then the prompt's
// parts in their order. Images stand behind the text.
type prompt struct {
	text   []string
	images []attachment
}

func (p *prompt) String() string {
	if len(p.text) == 0 {
		return emptyPrompt
	}
	return strings.Join(p.text, "\n\n")
}

func (c *conversation) prompt(history string, parts []events.Part) (*prompt, error) {
	p := new(prompt)
	p.add(history)
	for i, part := range parts {
		if err := c.part(p, i, part); err != nil {
			return nil, &backends.Error{Type: events.ErrInvalidRequest, Message: err.Error()}
		}
	}
	return p, nil
}

func (p *prompt) add(text string) {
	if strings.TrimSpace(text) != "" {
		p.text = append(p.text, text)
	}
}

func (c *conversation) part(p *prompt, i int, part events.Part) error {
	switch {
	case part.Type == events.PartText:
		p.add(part.Text)
	case part.Type == events.PartJSON:
		p.add(string(part.JSON))
	case part.Type == events.PartImage:
		return c.image(p, i, part)
	case part.Path != "":
		p.add(note(part, part.Path))
	case part.URL != "":
		p.add(note(part, part.URL))
	default:
		return c.file(p, i, part)
	}
	return nil
}

// note tells where a file is; copilot reads it with its own tools.
func note(part events.Part, where string) string {
	what := part.Type
	if part.Name != "" && filepath.Base(where) != part.Name {
		what += " " + part.Name
	}
	if part.MimeType != "" {
		what += " (" + part.MimeType + ")"
	}
	return fmt.Sprintf("[attached %s: %s]", what, where)
}

func (c *conversation) image(p *prompt, i int, part events.Part) error {
	data := part.Data
	if part.Path != "" {
		if !visible(part.MimeType) {
			p.add(note(part, part.Path))
			return nil
		}
		raw, err := c.b.o.Children.ReadFile(part.Path, maxImage)
		if err != nil {
			p.add(note(part, part.Path))
			return nil
		}
		data = base64.StdEncoding.EncodeToString(raw)
	}
	if data == "" {
		p.add(note(part, part.URL))
		return nil
	}
	if !visible(part.MimeType) || base64.StdEncoding.DecodedLen(len(data)) > maxImage {
		return c.keepFile(p, i, part)
	}
	p.images = append(p.images, attachment{
		Type: "blob", Data: data, MimeType: orElse(part.MimeType, "image/png"), DisplayName: orElse(part.Name, "image"),
	})
	return nil
}

// visible reports whether the models' APIs take images of a type.
func visible(mime string) bool {
	switch mime {
	case "", "image/png", "image/jpeg", "image/gif", "image/webp":
		return true
	}
	return false
}

// file puts a small text into the message, and keeps anything else where
// copilot can read it.
func (c *conversation) file(p *prompt, i int, part events.Part) error {
	if text, ok := smallText(part); ok {
		p.add(fmt.Sprintf("[attached file %s]\n%s\n[end of %s]", part.Name, text, part.Name))
		return nil
	}
	return c.keepFile(p, i, part)
}

func smallText(part events.Part) (string, bool) {
	if base64.StdEncoding.DecodedLen(len(part.Data)) > maxInline {
		return "", false
	}
	raw, err := base64.StdEncoding.DecodeString(part.Data)
	if err != nil || !utf8.Valid(raw) || strings.ContainsRune(string(raw), 0) {
		return "", false
	}
	return string(raw), true
}

// keepFile writes an attachment below copilot's folder and tells its path.
func (c *conversation) keepFile(p *prompt, i int, part events.Part) error {
	path, err := c.keep(part)
	if err != nil {
		return fmt.Errorf("attachment %d can't be kept: %w", i+1, err)
	}
	p.add(note(part, path))
	return nil
}

func (c *conversation) keep(part events.Part) (string, error) {
	raw, err := base64.StdEncoding.DecodeString(part.Data)
	if err != nil {
		return "", fmt.Errorf("it is not base64: %w", err)
	}
	dir := filepath.Join(c.b.home(), "attachments", c.cfg.ID)
	if err := c.b.o.Children.MkdirAll(dir); err != nil {
		return "", err
	}
	path := filepath.Join(dir, newID()[:8]+"-"+fileName(part))
	return path, c.b.o.Children.WriteFile(path, raw)
}

// fileName is a part's name without anything that could lead elsewhere.
func fileName(part events.Part) string {
	name := strings.Map(func(r rune) rune {
		if r == '/' || r == '\\' || r == '*' || r < ' ' {
			return '_'
		}
		return r
	}, part.Name)
	if name == "" {
		return part.Type
	}
	if len(name) > 100 {
		name = strings.ToValidUTF8(name[len(name)-100:], "_")
	}
	return name
}
