package told

import (
	"encoding/base64"
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"innerd/events"
)

const (
	// MaxImage is the largest image that goes to the model, in bytes; of a larger
	// one the agent gets the path, and can make it smaller.
	MaxImage = 10 << 20
	// MaxInline is the largest text file that is put into a prompt, in bytes.
	MaxInline = 256 << 10
	// Empty is what a prompt says that says nothing: models take no empty text.
	Empty = "(empty message)"
)

// Piece is a part of a prompt as an agent gets it: a Text, or, where Data is
// set, an image or a document.
type Piece struct {
	Text     string
	Document bool // a PDF, not an image
	Name     string
	MimeType string // of an image never ""
	Data     string // base64
}

// Reader makes pieces of parts for one conversation.
type Reader struct {
	Kept         Kept
	Conversation string
	Documents    bool // the model takes PDFs as they are
}

// Piece makes a piece of part i of a prompt. What the model cannot take is kept
// as a file, and the piece says where.
func (r Reader) Piece(i int, p events.Part) (Piece, error) {
	switch {
	case p.Type == events.PartText:
		return Piece{Text: p.Text}, nil
	case p.Type == events.PartJSON:
		return Piece{Text: string(p.JSON)}, nil
	case p.Type == events.PartImage:
		return r.image(i, p)
	case p.Path != "":
		return Note(p, p.Path), nil
	case p.URL != "":
		return Note(p, p.URL), nil
	}
	return r.file(i, p)
}

// Blank reports whether the piece says nothing.
func (p Piece) Blank() bool { return p.Data == "" && strings.TrimSpace(p.Text) == "" }

// Note tells where a file is; the agent reads it with its own tools.
func Note(p events.Part, where string) Piece {
	what := p.Type
	if p.Name != "" && filepath.Base(where) != p.Name {
		what += " " + p.Name
	}
	if p.MimeType != "" {
		what += " (" + p.MimeType + ")"
	}
	return Piece{Text: fmt.Sprintf("[attached %s: %s]", what, where)}
}

func (r Reader) image(i int, p events.Part) (Piece, error) {
	data := p.Data
	if p.Path != "" {
		if !Visible(p.MimeType) {
			return Note(p, p.Path), nil
		}
		raw, err := r.Kept.Files.ReadFile(p.Path, MaxImage)
		if err != nil {
			return Note(p, p.Path), nil
		}
		data = base64.StdEncoding.EncodeToString(raw)
	}
	if data == "" {
		return Note(p, p.URL), nil
	}
	if !Visible(p.MimeType) || base64.StdEncoding.DecodedLen(len(data)) > MaxImage {
		return r.keep(i, p)
	}
	return Piece{Name: p.Name, MimeType: first(p.MimeType, "image/png"), Data: data}, nil
}

// Visible reports whether the models' APIs take images of a type.
func Visible(mime string) bool {
	switch mime {
	case "", "image/png", "image/jpeg", "image/gif", "image/webp":
		return true
	}
	return false
}

// file puts a document or a small text into the prompt, and keeps anything else
// where the agent can read it.
func (r Reader) file(i int, p events.Part) (Piece, error) {
	if r.Documents && p.MimeType == "application/pdf" {
		return Piece{Document: true, Name: p.Name, MimeType: p.MimeType, Data: p.Data}, nil
	}
	if text, ok := SmallText(p.Data); ok {
		return Piece{Text: fmt.Sprintf("[attached file %s]\n%s\n[end of %s]", p.Name, text, p.Name)}, nil
	}
	return r.keep(i, p)
}

// SmallText is base64 data as text, if it is that and short.
func SmallText(data string) (string, bool) {
	if base64.StdEncoding.DecodedLen(len(data)) > MaxInline {
		return "", false
	}
	raw, err := base64.StdEncoding.DecodeString(data)
	if err != nil || !utf8.Valid(raw) || strings.ContainsRune(string(raw), 0) {
		return "", false
	}
	return string(raw), true
}

func (r Reader) keep(i int, p events.Part) (Piece, error) {
	path, err := r.Kept.Keep(r.Conversation, p)
	if err != nil {
		return Piece{}, fmt.Errorf("attachment %d can't be kept: %w", i+1, err)
	}
	return Note(p, path), nil
}
