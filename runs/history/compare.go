package history

import (
	"fmt"
	"slices"
)

// Mode is how a turn's agent comes to know the history.
type Mode string

// The modes.
const (
	Continue Mode = "continue" // the agent goes on, it knows all
	Tell     Mode = "tell"     // the same agent is told what it does not know
	New      Mode = "new"      // a new session is told everything
)

// Decision is what Compare decides.
type Decision struct {
	Mode    Mode
	Reason  string    // in words, for the host
	Tell    []Message // what to tell, in order
	Matched int       // units of the record that the history has

	maybe []bool       // of Tell: the agent may know it
	next  []RecordUnit // the record once Tell is told; nil where Compare did not make it
}

// MayBeKnown reports whether the agent may know Tell[i] already.
func (d Decision) MayBeKnown(i int) bool { return i >= 0 && i < len(d.maybe) && d.maybe[i] }

// Compare decides what the agent of a record has to be told of a host's
// history, which is without the prompt. accepted is the moment at which the
// request was accepted, on the scale of Record.Told's now: a unit that was added
// after it can't be in the history, so that it is not missing there.
//
// Units are compared from the start; a summary stands for any beginning. User
// texts must all match. Assistant texts may differ, be more or be fewer, but
// for the last: a history that ends before it is that of an edit or another
// user. What only may have reached the agent is told again.
func Compare(rec Record, history []Message, accepted int64) Decision {
	items, summary := itemsOf(history)
	d, ok := align(rec.Units, 0, items, history, accepted)
	for from := 1; !ok && summary && from <= len(rec.Units); from++ {
		var skipped Decision
		if skipped, ok = align(rec.Units, from, items, history, accepted); ok {
			d = skipped
		}
	}
	if ok && summary && d.Matched == 0 && overlaps(rec.Units, items) {
		// Not all of the record can be in the summary: its end was taken back.
		d, ok = Decision{Reason: "the history ends before what the agent knows"}, false
	}
	if !ok {
		return Decision{Mode: New, Reason: d.Reason, Tell: history, Matched: d.Matched}
	}
	return d
}

// overlaps reports whether a text of the history is in the record.
func overlaps(units []RecordUnit, items []item) bool {
	for _, it := range items {
		for _, u := range units {
			if it.role == u.Role && u.is(it.hash) {
				return true
			}
		}
	}
	return false
}

// aligner walks a record and a history side by side.
type aligner struct {
	accepted int64
	units    []RecordUnit // not compared yet
	items    []item       // not compared yet

	next    []RecordUnit
	tell    map[int]bool // places in the history to tell; true: may be known
	more    int          // from this place on the history is additional; -1: nothing is
	matched int
	effort  int // bytes hashed in search of joined texts

	steers []string // texts given to the agent in the turn being compared, not met yet
	unsure bool     // that turn is not on the agent's disk
}

// maxEffort ends the search for joined texts in histories with thousands of
// messages that the agent does not know; each is looked up by itself then.
const maxEffort = 64 << 20

// align compares a history with the units from a place on; those before it
// are taken as summarised. Not ok: only Reason and Matched are set.
func align(units []RecordUnit, from int, items []item, history []Message, accepted int64) (Decision, bool) {
	a := &aligner{accepted: accepted, units: units[from:], items: items, tell: map[int]bool{}, more: -1}
	a.next = append(make([]RecordUnit, 0, len(units)+len(items)), units[:from]...)
	if why := a.walk(from > 0); why != "" {
		return Decision{Reason: why, Matched: a.matched}, false
	}
	return a.decide(history), true
}

// walk returns why the history can't be this record's.
func (a *aligner) walk(summarised bool) string {
	for {
		ended := a.gap()
		if len(a.items) == 0 {
			if ended && !summarised || !a.skippable() {
				return "the history ends before what the agent knows"
			}
			a.next = append(a.next, a.units...)
			return ""
		}
		n := a.user()
		if n == 0 {
			if !a.skippable() {
				return fmt.Sprintf("user message %d differs from what the agent was told", a.users()+1)
			}
			a.rest()
			return ""
		}
		a.know(a.items[:n])
		a.items = a.items[n:]
		summarised = false
	}
}

// gap compares the assistant texts up to the next user text on either side.
// It reports whether the record ends here with a text that the agent surely
// said and the history has nothing in its place.
func (a *aligner) gap() (missing bool) {
	used := map[string]int{}
	sure, last := false, false
	for len(a.units) > 0 && a.units[0].Role == roleAssistant {
		last = len(a.units) == 1
		sure = sure || !a.optional(a.units[0])
		a.offer(a.units[0])
		a.next = append(a.next, a.units[0])
		a.units = a.units[1:]
	}
	have := a.answers()
	n := len(have)
	said := a.next[len(a.next)-a.tail():]
	var told []RecordUnit
	for len(have) > 0 {
		u, k := a.known(said, have, used)
		if u < 0 {
			a.tell[have[0].at] = false
			told = append(told, have[0].unit())
			have = have[1:]
			continue
		}
		a.matched++
		if said[u].Unsure {
			a.again(&said[u], have[:k])
		}
		have = have[k:]
	}
	a.next = append(a.next, told...)
	return last && sure && n == 0 && len(a.items) == 0
}

// answers takes the assistant items up to the next user text, and, from among
// them, the texts that the agent was given meanwhile: hosts keep them as user
// messages, or not at all.
func (a *aligner) answers() []item {
	var have []item
	for len(a.items) > 0 && (a.items[0].role == roleAssistant || a.steer(a.items[0])) {
		if a.items[0].role == roleAssistant {
			have = append(have, a.items[0])
		}
		a.items = a.items[1:]
	}
	a.steers = nil
	return have
}

// offer makes a unit's steers those of the turn being compared.
func (a *aligner) offer(u RecordUnit) {
	if len(u.Steers) > 0 {
		a.steers, a.unsure = append(slices.Clone(a.steers), u.Steers...), u.Unsure
	}
}

// steer reports whether a user's text is one that the agent was given while it
// worked. A later prompt may have the same words: then the history has it more
// often than the record.
func (a *aligner) steer(it item) bool {
	i := slices.Index(a.steers, it.hash)
	if i < 0 {
		return false
	}
	extra := 0
	for _, other := range a.items {
		if other.role == roleUser && other.hash == it.hash {
			extra++
		}
	}
	for _, u := range a.units {
		if u.Role == roleUser && u.is(it.hash) {
			extra--
		}
	}
	if extra <= 0 {
		return false
	}
	a.steers = slices.Delete(a.steers, i, i+1)
	if a.unsure {
		a.tell[it.at] = true
	}
	return true
}

// tail is how many assistant units next ends with.
func (a *aligner) tail() int {
	n := 0
	for n < len(a.next) && a.next[len(a.next)-1-n].Role == roleAssistant {
		n++
	}
	return n
}

// known finds the unit that the first k items are, as many as can be. Each
// text of a unit counts once.
func (a *aligner) known(units []RecordUnit, items []item, used map[string]int) (unit, k int) {
	unit = -1
	if a.effort > maxEffort {
		items = items[:1]
	}
	found := ""
	for n, hash := range joins(items) {
		a.effort += len(items[n-1].text)
		for u := range units {
			if units[u].is(hash) && used[hash] <= u {
				unit, k, found = u, n, hash
				break
			}
		}
	}
	if unit >= 0 {
		used[found] = unit + 1
	}
	return unit, k
}

// user is how many items are the next unit of the record, a user's; 0 if
// they are not.
func (a *aligner) user() int {
	if len(a.units) == 0 {
		return 0
	}
	for n, hash := range joins(a.items[:lead(a.items, roleUser)]) {
		if a.units[0].is(hash) {
			return n
		}
	}
	return 0
}

// know takes a user unit that matched.
func (a *aligner) know(items []item) {
	u := a.units[0]
	a.units = a.units[1:]
	a.matched++
	a.offer(u)
	if u.Unsure {
		a.again(&u, items)
	}
	a.next = append(a.next, u)
}

// again tells what the agent may know; it is this run's from then on.
func (a *aligner) again(u *RecordUnit, items []item) {
	u.Run = ""
	for _, it := range items {
		a.tell[it.at] = true
	}
}

// rest takes all that is left of the history as additional.
func (a *aligner) rest() {
	a.next = append(a.next, a.units...)
	a.units = nil
	a.more = a.items[0].at
	for _, it := range a.items {
		a.next = append(a.next, it.unit())
	}
}

// skippable reports whether nothing that is left of the record counts as
// missing.
func (a *aligner) skippable() bool {
	for _, u := range a.units {
		if !a.optional(u) {
			return false
		}
	}
	return true
}

// optional: the unit came too late for the history to have it, or is a piece
// of an answer that may never have been one.
func (a *aligner) optional(u RecordUnit) bool {
	return u.Added > a.accepted || u.Unsure && u.Role == roleAssistant
}

func (a *aligner) users() int {
	n := 0
	for _, u := range a.next {
		if u.Role == roleUser {
			n++
		}
	}
	return n
}

func (a *aligner) decide(history []Message) Decision {
	d := Decision{Mode: Continue, Reason: "the agent knows all of the history", Matched: a.matched, next: a.next}
	again := 0
	for i, m := range history {
		maybe, one := a.tell[i]
		if !one && (a.more < 0 || i < a.more) {
			continue
		}
		d.Tell = append(d.Tell, m)
		d.maybe = append(d.maybe, maybe)
		if maybe {
			again++
		}
	}
	if len(d.Tell) > 0 {
		d.Mode = Tell
		d.Reason = fmt.Sprintf("%d messages are told that the agent does not know", len(d.Tell)-again)
		if again > 0 {
			d.Reason += fmt.Sprintf(", %d that it may know", again)
		}
	}
	return d
}
