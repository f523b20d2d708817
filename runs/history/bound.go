package history

import (
	"fmt"
	"strings"
)

// shortResult is what is left of a tool's result in a block that is too long.
const shortResult = 200

// noteRoom is kept free for the notes of what was left out.
const noteRoom = 200

// bound makes entries fit into total characters.
func bound(entries []entry, total int) (kept []entry, note string) {
	size := 0
	for _, e := range entries {
		size += e.size
	}
	if size <= total {
		return entries, ""
	}
	total -= noteRoom
	for i := range entries {
		if size <= total {
			break
		}
		if e := &entries[i]; e.m.Role == roleTool && e.opt.Result > shortResult {
			size -= e.size
			e.opt.Result = shortResult
			e.render()
			size += e.size
		}
	}
	gone := map[int]bool{}
	for _, summaries := range []bool{false, true} {
		for i, e := range entries {
			if size <= total || len(gone) == len(entries)-1 {
				break
			}
			if e.m.Summary == summaries && !gone[i] && i < len(entries)-1 {
				gone[i] = true
				size -= e.size
			}
		}
	}
	for i, e := range entries {
		if !gone[i] {
			kept = append(kept, e)
		}
	}
	if len(kept) == 1 && size > total { // the last message alone is too long
		kept[0].shorten(total)
	}
	if len(gone) > 0 {
		note = fmt.Sprintf("[%d older messages were left out]\n", len(gone))
	}
	return kept, note
}

// shorten cuts the texts of a message so that it fits, each to the same share.
func (e *entry) shorten(total int) {
	parts := 2 + len(e.m.ToolCalls) + len(e.m.Attachments)
	share := max(total/parts-noteRoom, 0)
	e.m.Text = cut(strings.TrimSpace(e.m.Text), share)
	e.m.Reasoning = cut(strings.TrimSpace(e.m.Reasoning), share)
	e.opt.Arguments = min(e.opt.Arguments, share)
	e.render()
	if e.size > total {
		e.text = ""
	}
}
