package history

import (
	"crypto/sha256"
	"encoding/hex"
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
	h := sha256.Sum256([]byte(normal))
	return hex.EncodeToString(h[:16])
}

// joined is the hash of neighbours as one text.
func joined(items []item) string {
	texts := make([]string, len(items))
	for i, it := range items {
		texts[i] = it.text
	}
	return hashOf(strings.Join(texts, " "))
}

// item is a message of the host's history that counts.
type item struct {
	role string
	text string // normalised, not empty
	at   int    // its place in the history
}

func (it item) unit() RecordUnit {
	return RecordUnit{Unit: Unit{Role: it.role, Hashes: []string{hashOf(it.text)}}, Unsure: true, Added: fresh}
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
			items = append(items, item{role: m.Role, text: t, at: i})
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
