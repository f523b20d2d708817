package runs

import (
	"maps"
	"slices"

	"innerd/events"
	"innerd/runs/redact"
)

// redactor takes secrets out of what a run's recorder is told, before it is
// stored. Its owner is the recorder, under whose lock it is used. A nil one
// takes nothing out, and costs nothing.
type redactor struct {
	set    *redact.Set
	block  *redact.Stream            // of the message or reasoning that is open
	pieces map[string]*redact.Stream // of outputs of tools and texts of sub-agents, by id
}

// redactor makes that of a run: what the server knows, and the secrets that the
// request brought.
func (m *Manager) redactor(spec Spec) *redactor {
	if m.opt.Redact == nil {
		return nil
	}
	return &redactor{set: m.opt.Redact.Known(secretsOf(spec)...), pieces: map[string]*redact.Stream{}}
}

// secretsOf are the secrets that a request brings: its credential, and what it
// puts into the environment under a name of secrets.
func secretsOf(spec Spec) []string {
	var out []string
	if spec.Credential != nil {
		out = append(out, spec.Credential.Key)
	}
	for name, v := range spec.Env {
		if redact.SecretName(name) {
			out = append(out, v)
		}
	}
	return out
}

// text is a text without secrets, for what is stored beside events.
func (x *redactor) text(s string) string {
	if x == nil {
		return s
	}
	return x.set.Text(s)
}

// json is the same for a JSON value.
func (x *redactor) json(raw []byte) []byte {
	if x == nil {
		return raw
	}
	return x.set.JSON(raw)
}

// events are what a piece of news becomes: nothing as long as all of it may
// begin a secret, two events where an end brings what was held back.
func (x *redactor) events(d events.Data) []events.Data {
	switch v := d.(type) {
	case events.ToolUpdate:
		had := v.Output != ""
		v.Output = x.piece("t"+v.ID, v.Output)
		if had && v.Output == "" && len(v.Input) == 0 {
			return nil
		}
		return []events.Data{x.set.Data(v)}
	case events.SubagentDelta:
		if v.Text = x.piece("s"+v.ID, v.Text); v.Text == "" {
			return nil
		}
		return []events.Data{x.set.Data(v)}
	case events.ToolComplete:
		if rest := x.end("t" + v.ID); rest != "" {
			return []events.Data{events.ToolUpdate{ID: v.ID, ParentID: v.ParentID, Name: v.Name, Output: rest}, x.set.Data(v)}
		}
	case events.SubagentComplete:
		if rest := x.end("s" + v.ID); rest != "" {
			return []events.Data{events.SubagentDelta{ID: v.ID, ParentID: v.ParentID, Name: v.Name, Text: rest}, x.set.Data(v)}
		}
	}
	return []events.Data{x.set.Data(d)}
}

func (x *redactor) piece(id, text string) string {
	if text == "" {
		return ""
	}
	st := x.pieces[id]
	if st == nil {
		st = x.set.Stream()
		x.pieces[id] = st
	}
	return st.Write(text)
}

func (x *redactor) end(id string) string {
	st := x.pieces[id]
	if st == nil {
		return ""
	}
	delete(x.pieces, id)
	return st.Close()
}

// rest is what was held back of pieces whose end never came.
func (x *redactor) rest() (out []events.Data) {
	if x == nil {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(x.pieces)) {
		switch text := x.end(key); {
		case text == "":
		case key[0] == 't':
			out = append(out, events.ToolUpdate{ID: key[1:], Output: text})
		default:
			out = append(out, events.SubagentDelta{ID: key[1:], Text: text})
		}
	}
	return out
}

// shownLocked is what of a delta can be shown.
func (r *recorder) shownLocked(delta string) string {
	if r.redact == nil {
		return delta
	}
	if r.redact.block == nil {
		r.redact.block = r.redact.set.Stream()
	}
	return r.redact.block.Write(delta)
}

// flushLocked shows what was held back of the open block, as its last delta.
func (r *recorder) flushLocked() {
	if r.redact == nil || r.redact.block == nil {
		return
	}
	rest := r.redact.block.Close()
	r.redact.block = nil
	if rest == "" || r.open.kind == "" {
		return
	}
	r.showLocked(r.open.kind, rest)
}

// forgetLocked drops what was held back of a block that is taken back.
func (r *recorder) forgetLocked() {
	if r.redact != nil {
		r.redact.block = nil
	}
}

// closing redacts the events that end the log.
func (r *recorder) closing(list ...events.Data) []events.Data {
	if r.redact != nil {
		for i, d := range list {
			list[i] = r.redact.set.Data(d)
		}
	}
	return list
}

// pending redacts what a task shows of an open request.
func (x *redactor) pending(p Pending) Pending {
	p.Input, p.Message, p.Schema = x.json(p.Input), x.text(p.Message), x.json(p.Schema)
	return p
}
