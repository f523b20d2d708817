package codex

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"innerd/backends"
	"innerd/events"
)

const (
	maxImage    = 10 << 20  // bytes; above, codex gets the path and can make it smaller
	maxInline   = 256 << 10 // of a text file that is put into the prompt
	emptyPrompt = "(empty message)"
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
		x, err := c.part(i, p)
		if err != nil {
			return nil, &backends.Error{Type: events.ErrInvalidRequest, Message: err.Error()}
		}
		if x.Type != "text" || strings.TrimSpace(x.Text) != "" {
			out = append(out, x)
		}
	}
	if len(out) == 0 {
		out = append(out, textInput(emptyPrompt))
	}
	return out, nil
}

func (c *conversation) part(i int, p events.Part) (userInput, error) {
	switch {
	case p.Type == events.PartText:
		return textInput(p.Text), nil
	case p.Type == events.PartJSON:
		return textInput(string(p.JSON)), nil
	case p.Type == events.PartImage:
		return c.image(i, p)
	case p.Path != "":
		return note(p, p.Path), nil
	case p.URL != "":
		return note(p, p.URL), nil
	}
	return c.file(i, p)
}

// note tells where a file is; codex reads it with its own tools.
func note(p events.Part, where string) userInput {
	what := p.Type
	if p.Name != "" && filepath.Base(where) != p.Name {
		what += " " + p.Name
	}
	if p.MimeType != "" {
		what += " (" + p.MimeType + ")"
	}
	return textInput(fmt.Sprintf("[attached %s: %s]", what, where))
}

func (c *conversation) image(i int, p events.Part) (userInput, error) {
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
	return userInput{Type: "image", URL: dataURL(p.MimeType, data)}, nil
}

// visible reports whether the model's API takes images of a type.
func visible(mime string) bool {
	switch mime {
	case "", "image/png", "image/jpeg", "image/gif", "image/webp":
		return true
	}
	return false
}

// file puts a small text into the message, and keeps anything else where codex
// can read it.
func (c *conversation) file(i int, p events.Part) (userInput, error) {
	if base64.StdEncoding.DecodedLen(len(p.Data)) <= maxInline {
		raw, err := base64.StdEncoding.DecodeString(p.Data)
		if err == nil && utf8.Valid(raw) && !strings.ContainsRune(string(raw), 0) {
			return textInput(fmt.Sprintf("[attached file %s]\n%s\n[end of %s]", p.Name, raw, p.Name)), nil
		}
	}
	return c.keepFile(i, p)
}

// keepFile writes an attachment below codex's folder and tells its path.
func (c *conversation) keepFile(i int, p events.Part) (userInput, error) {
	raw, err := base64.StdEncoding.DecodeString(p.Data)
	if err != nil {
		return userInput{}, fmt.Errorf("attachment %d is not base64: %w", i+1, err)
	}
	dir := filepath.Join(c.b.codexHome(), "attachments", orElse(c.cfg.ID, "none"))
	path := filepath.Join(dir, rand.Text()[:8]+"-"+fileName(p))
	err = c.b.o.Children.MkdirAll(dir)
	if err == nil {
		err = c.b.o.Children.WriteFile(path, raw)
	}
	if err != nil {
		return userInput{}, fmt.Errorf("attachment %d can't be kept: %w", i+1, err)
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
