// Package changes is what claude's tools do to files, as events: the diffs of
// those that edit, and what its shell has deleted or moved. It knows nothing of
// the conversation.
package changes
