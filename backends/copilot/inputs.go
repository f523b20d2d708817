package copilot

import (
	"slices"
	"sync"
)

// inputs counts what was put into a turn and what copilot has begun with: an
// input that copilot takes after its end starts a turn of nobody. So whether
// the turn is over, and whether one may be sent, is decided under one lock.
type inputs struct {
	mu     sync.Mutex
	closed bool
	open   []*input // sent, and not begun with
	early  []string // begun with before their send was answered
}

// input is one that was sent.
type input struct {
	id      string // copilot's; "" until the send is answered
	text    string // of a steer
	steer   bool
	taken   chan struct{} // closed when copilot begins with it, and that was told
	refused chan error    // holds why copilot did not take it
}

func newInput(text string, steer bool) *input {
	return &input{text: text, steer: steer, taken: make(chan struct{}), refused: make(chan error, 1)}
}

// add counts an input that send then sends; false: the turn is over. Both
// happen under the lock.
func (in *inputs) add(x *input, send func() error) (bool, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return false, nil
	}
	if err := send(); err != nil {
		return true, err
	}
	in.open = append(in.open, x)
	return true, nil
}

// named gives an input copilot's id; true: copilot has begun with it already.
func (in *inputs) named(x *input, id string) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	x.id = id
	if !slices.Contains(in.early, id) {
		return false
	}
	in.takeLocked(x)
	return true
}

// take marks the input of an id as begun with; nil: it is not known yet. The
// caller tells of it and then closes taken, as after named.
func (in *inputs) take(id string) *input {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, x := range in.open {
		if x.id == id {
			in.takeLocked(x)
			return x
		}
	}
	in.early = append(in.early, id)
	return nil
}

func (in *inputs) takeLocked(x *input) {
	if i := slices.Index(in.open, x); i >= 0 {
		in.open = slices.Delete(in.open, i, i+1)
	}
}

// drop forgets an input that copilot refused, and tells why.
func (in *inputs) drop(x *input, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if i := slices.Index(in.open, x); i >= 0 {
		in.open = slices.Delete(in.open, i, i+1)
		x.refused <- err
	}
}

// settled reports whether copilot has begun with all.
func (in *inputs) settled() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.open) == 0
}

// close lets nothing more in, unless copilot has not begun with something;
// false: it must be waited for.
func (in *inputs) close() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.open) > 0 {
		return false
	}
	in.closed = true
	return true
}

// left are the ids of what copilot has not begun with.
func (in *inputs) left() (ids []string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, x := range in.open {
		ids = append(ids, x.id)
	}
	return ids
}

// shut lets nothing more in, whatever was sent.
func (in *inputs) shut() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
}
