package toolbridge

import "innerd/events"

// OpenRequests counts the requests that wait for their hosts, by kind.
func (b *Bridge) OpenRequests() map[events.RequestKind]int {
	out := map[events.RequestKind]int{events.KindTool: 0, events.KindPermission: 0, events.KindQuestion: 0}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.open {
		out[p.r.Kind]++
	}
	return out
}
