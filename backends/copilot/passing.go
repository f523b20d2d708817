package copilot

import "bytes"

// passedOver reports whether a message says no more than that copilot is alive,
// which it notes. Some come with each call of a model and hold the whole system
// message, or all that was ever said in the session: to decode them would cost
// more than all others. They are told by how they begin; one that begins
// otherwise is decoded.
func (p *process) passedOver(frame []byte) bool {
	session, typ, ok := begins(frame)
	if !ok {
		return false
	}
	if typ == "" {
		return true
	}
	if handled[typ] || !known[typ] {
		return false
	}
	if c := p.hears(session); c != nil {
		c.alive()
	} else {
		p.countLate()
	}
	return true
}

// maxBeginning is more than what stands before the data of an event, in bytes.
const maxBeginning = 512

var (
	beginsSession   = []byte(`{"jsonrpc":"2.0","method":"session.`)
	beginsLifecycle = []byte(`lifecycle","params":`) // one for each event
	beginsEvent     = []byte(`event","params":{"sessionId":"`)
	beginsType      = []byte(`","event":{"type":"`)
)

// begins gives the session and the type of an event; no type: it is another
// notice of the session's. Not ok: it is something else, or not as copilot
// writes it.
func begins(frame []byte) (session, typ string, ok bool) {
	rest, ok := bytes.CutPrefix(frame[:min(len(frame), maxBeginning)], beginsSession)
	if !ok {
		return "", "", false
	}
	if bytes.HasPrefix(rest, beginsLifecycle) {
		return "", "", true
	}
	rest, ok = bytes.CutPrefix(rest, beginsEvent)
	if !ok {
		return "", "", false
	}
	id, rest, ok := bytes.Cut(rest, beginsType)
	if !ok || bytes.ContainsAny(id, `"\`) { // another object's type
		return "", "", false
	}
	name, _, ok := bytes.Cut(rest, []byte(`"`))
	if !ok || len(name) == 0 || bytes.IndexByte(name, '\\') >= 0 {
		return "", "", false
	}
	return string(id), string(name), true
}
