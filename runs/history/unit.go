package history

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"iter"
	"slices"
	"strings"
)

// Unit is one user or assistant text: all that a host's history can be
// compared by, since hosts keep neither tools nor reasoning alike.
type Unit struct {
	Role   string   `json:"role"`
	Hashes []string `json:"hashes"` // of the texts that count as it
}

// is reports whether a text of that hash counts as the unit.
func (u Unit) is(hash string) bool { return slices.Contains(u.Hashes, hash) }

// normalise takes differences out that hosts make: white space.
func normalise(text string) string { return strings.Join(strings.Fields(text), " ") }

// hashOf is the name of a normalised text. 128 bits are enough where nobody
// gains by a collision but themselves.
func hashOf(normal string) string {
	return name(sha256.Sum256([]byte(normal)))
}

func name(h [32]byte) string { return hex.EncodeToString(h[:16]) }

func newItem(role, normal string, at int) item {
	return item{role: role, text: normal, hash: hashOf(normal), at: at}
}

// joins gives the hash of the first item, of the first two as one text, and
// so on.
func joins(items []item) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		h := sha256.New()
		for i, it := range items {
			hash := it.hash
			if len(items) > 1 {
				if i > 0 {
					io.WriteString(h, " ")
				}
				io.WriteString(h, it.text)
				hash = name([32]byte(h.Sum(nil)))
			}
			if !yield(i+1, hash) {
				return
			}
		}
	}
}

// joined is the hash of neighbours as one text.
func joined(items []item) (hash string) {
	for _, hash = range joins(items) {
	}
	return hash
}

// item is a message of the host's history that counts.
type item struct {
	role string
	text string // normalised, not empty
	hash string
	at   int // its place in the history
}

func (it item) unit() RecordUnit {
	return RecordUnit{Unit: Unit{Role: it.role, Hashes: []string{it.hash}}, Unsure: true, Added: fresh}
}

// itemsOf lists what counts of a history, from its last summary on.
func itemsOf(msgs []Message) (items []item, summary bool) {
	for i, m := range msgs {
		if m.Summary {
			items, summary = nil, true
			continue
		}
		if m.Role != roleUser && m.Role != roleAssistant {
			continue
		}
		if t := normalise(m.Text); t != "" {
			items = append(items, newItem(m.Role, t, i))
		}
	}
	return items, summary
}

// lead is how many of the first items have the role.
func lead(items []item, role string) int {
	n := 0
	for n < len(items) && items[n].role == role {
		n++
	}
	return n
}
