package history

import "slices"

// Record is what an agent has been told or has said in one session, in the
// order of the host's history; it is stored as JSON. The zero value is that of
// a new session.
//
// Its methods never change what a copy of the Record shares, so that a copy
// may be read while the original goes on.
type Record struct {
	Units []RecordUnit `json:"units,omitempty"`
}

// RecordUnit is one unit of a Record.
type RecordUnit struct {
	Unit
	// Unsure: the turn that told or said it is not on the agent's own disk, so
	// that the agent may or may not know it.
	Unsure bool   `json:"unsure,omitempty"`
	Run    string `json:"run,omitempty"` // the run that told or said it last
	// Steers are the hashes of texts that reached the agent while it worked on
	// this unit's turn. Some hosts keep them as user messages, some do not.
	Steers []string `json:"steers,omitempty"`
	Added  int64    `json:"added,omitempty"` // the moment at which it came in
}

// maxSingles bounds how many messages of one turn are remembered each by
// itself; all of them joined are always.
const maxSingles = 64

// fresh marks units that Told has still to stamp.
const fresh = -1

// Told writes down what a run is about to tell its agent: what d decided,
// then the prompt. All of it is unsure until Said. d must have been made from
// r as it is; where d.Mode is New, r begins anew.
//
// now is the moment, on the scale of Compare's accepted: any number that only
// grows, over restarts too.
func (r *Record) Told(run string, now int64, d Decision, prompt Message) {
	units := slices.Clone(d.next)
	if d.Mode == New || d.next == nil {
		units = nil
		if d.Mode != New {
			units = slices.Clone(r.Units)
		}
		items, _ := itemsOf(d.Tell)
		for _, it := range items {
			units = append(units, it.unit())
		}
	}
	if t := normalise(prompt.Text); t != "" {
		units = append(units, newItem(roleUser, t, 0).unit())
	}
	for i, u := range units {
		if u.Run == "" {
			units[i].Run = run
		}
		if u.Added == fresh {
			units[i].Added = now
		}
	}
	r.Units = units
}

// Steered writes down a text that a run's agent was given while it worked. It
// counts as known where the history has it, and is not missed where it has not.
func (r *Record) Steered(run, text string) {
	t := normalise(text)
	if t == "" {
		return
	}
	at := -1
	for i, u := range r.Units {
		if u.Run == run || at < 0 || r.Units[at].Run != run {
			at = i // the run's last unit; of a prompt without a text the one before
		}
	}
	if at < 0 {
		return
	}
	units := slices.Clone(r.Units)
	units[at].Steers = append(slices.Clone(units[at].Steers), hashOf(t))
	r.Units = units
}

// Said writes down how a run ended: the texts of the messages that its agent
// said, in order, and whether the agent has the turn on its own disk. Hosts
// keep all the messages or the last alone; each counts as the unit.
func (r *Record) Said(run string, now int64, texts []string, stored bool) {
	units := slices.Clone(r.Units)
	for i, u := range units {
		if u.Run == run {
			units[i].Unsure = !stored
		}
	}
	var items []item
	for _, t := range texts {
		if t = normalise(t); t != "" {
			items = append(items, newItem(roleAssistant, t, 0))
		}
	}
	if len(items) > 0 {
		u := RecordUnit{Unit: Unit{Role: roleAssistant, Hashes: []string{joined(items)}}, Unsure: !stored, Run: run, Added: now}
		singles := items[max(0, len(items)-maxSingles):]
		for _, it := range slices.Backward(singles) { // the last first: it is the one most hosts keep
			if !u.is(it.hash) {
				u.Hashes = append(u.Hashes, it.hash)
			}
		}
		units = append(units, u)
	}
	r.Units = units
}
