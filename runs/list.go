package runs

import (
	"encoding/base64"
	"slices"
	"strings"

	"innerd/backends"
)

// Query chooses runs for List.
type Query struct {
	ContextID string
	State     string
	PageSize  int    // 0: 50; at most 100
	PageToken string // from the page before
}

// List gives the owner's runs in brief, newest first, and the token of the next page,
// "" when there is none. A *backends.FieldError names a bad page token.
func (m *Manager) List(owner string, q Query) ([]Task, string, error) {
	if q.PageSize <= 0 {
		q.PageSize = 50
	}
	q.PageSize = min(q.PageSize, 100)
	after, err := decodeToken(q.PageToken)
	if err != nil {
		return nil, "", err
	}
	tasks := []Task{}
	skipping, last := after != "", ""
	for _, info := range m.store.List() {
		if skipping {
			// The run that the token names may be gone; what is older follows.
			skipping = tokenOf(info.Created.UnixNano(), info.ID) >= after
			if skipping {
				continue
			}
		}
		if info.Owner != owner || (q.ContextID != "" && info.ContextID != q.ContextID) || (q.State != "" && m.stateOf(info) != q.State) {
			continue
		}
		if len(tasks) == q.PageSize {
			return tasks, encodeToken(last), nil
		}
		run, err := m.Get(owner, info.ID)
		if err != nil {
			continue // deleted meanwhile
		}
		t, err := run.Brief()
		if err != nil {
			return nil, "", err
		}
		tasks, last = append(tasks, t), tokenOf(info.Created.UnixNano(), info.ID)
	}
	return tasks, "", nil
}

// tokenOf orders runs as List does: by time, then id.
func tokenOf(created int64, id string) string {
	const digits = "0123456789abcdef"
	var b [16]byte
	for i := range b {
		b[15-i] = digits[created>>(4*i)&15]
	}
	return string(b[:]) + id
}

func encodeToken(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

func decodeToken(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(raw) < 17 {
		return "", &backends.FieldError{Field: "page_token", Reason: "is not one that this server gave"}
	}
	return string(raw), nil
}

func sortConversations(list []ConversationInfo) {
	slices.SortFunc(list, func(a, b ConversationInfo) int {
		if c := b.LastUsed.Compare(a.LastUsed); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
}
