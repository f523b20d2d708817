package simulate

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"innerd/backends"
)

// optionsField is where a turn's options stand in the request.
const optionsField = "metadata.agent_options"

// A step is one thing the agent does. Steps are read-only once parsed.
type step interface {
	// play does it. An error ends the turn, errDone without a failure.
	play(t *turn) error
	// says reports whether the agent may say text in it, or the turn may end
	// in it, so that an earlier message is not the last.
	says() bool
}

// A maker makes a step out of its object.
type maker struct {
	keys []string // all it may have, its own name first
	make func(o *object) step
}

// steps is the vocabulary: the key that names a step, and how it is read.
// Filled in by init, since repeat refers to it.
var steps map[string]maker

func init() {
	steps = map[string]maker{
		"text":       {[]string{"text", "chunk_bytes", "delay_ms"}, makeText},
		"reasoning":  {[]string{"reasoning", "chunk_bytes", "delay_ms"}, makeReasoning},
		"tool":       {[]string{"tool"}, makeTool},
		"call":       {[]string{"call"}, makeCall},
		"calls":      {[]string{"calls"}, makeCalls},
		"permission": {[]string{"permission"}, makePermission},
		"ask":        {[]string{"ask"}, makeAsk},
		"usage":      {[]string{"usage"}, makeUsage},
		"sleep_ms":   {[]string{"sleep_ms"}, makeSleep},
		"flood":      {[]string{"flood"}, makeFlood},
		"retry":      {[]string{"retry"}, makeRetry},
		"error":      {[]string{"error"}, makeError},
		"stall":      {[]string{"stall"}, func(o *object) step { o.yes("stall"); return stall{} }},
		"empty":      {[]string{"empty"}, func(o *object) step { o.yes("empty"); return empty{} }},
		"crash":      {[]string{"crash"}, makeCrash},
		"repeat":     {[]string{"repeat", "steps"}, makeRepeat},
		"finish":     {[]string{"finish"}, makeFinish},
		"native":     {[]string{"native"}, makeNative},
		"change":     {[]string{"change"}, makeChange},
		"subagent":   {[]string{"subagent"}, makeSubagent},
		"background": {[]string{"background"}, makeBackground},
		"compact":    {[]string{"compact"}, makeCompact},
		"output":     {[]string{"output"}, makeOutput},
		"cut":        {[]string{"cut"}, makeCut},
		"refused":    {[]string{"refused"}, makeRefused},
		"full":       {[]string{"full"}, func(o *object) step { o.yes("full"); return nothing{} }},
		"next":       {[]string{"next"}, func(o *object) step { o.yes("next"); return nothing{round: true} }},
		"told":       {[]string{"told"}, func(o *object) step { o.yes("told"); return told{} }},
	}
}

// Limits of a script. They keep a mistake from becoming an outage.
const (
	maxDepth = 16
	maxWait  = 7 * 24 * time.Hour
	maxCount = 1_000_000_000
	maxPiece = 1 << 20 // bytes of one delta
)

// CheckScript reports what is wrong with a script: a *backends.FieldError
// whose field begins with "script".
func CheckScript(script json.RawMessage) error {
	_, err := parseScript("script", script)
	return err
}

// stepsOf is the script of a turn, nil for an echo.
func (b *Backend) stepsOf(s backends.Settings) ([]step, error) {
	if b.scriptErr != nil {
		return nil, b.scriptErr
	}
	if isNull(s.Options) {
		return b.script, nil
	}
	var opts map[string]json.RawMessage
	if err := json.Unmarshal(s.Options, &opts); err != nil {
		return nil, &backends.FieldError{Field: optionsField, Reason: "must be an object"}
	}
	for _, key := range slices.Sorted(maps.Keys(opts)) {
		if key != "script" {
			return nil, &backends.FieldError{Field: optionsField + "." + key, Reason: "unknown option; simulate has: script"}
		}
	}
	if isNull(opts["script"]) {
		return b.script, nil
	}
	return parseScript(optionsField+".script", opts["script"])
}

// parseScript reads a list of steps. An empty list is not nil.
func parseScript(field string, raw json.RawMessage) ([]step, error) {
	r := &reader{}
	out := r.steps(field, raw)
	if r.err != nil {
		return nil, r.err
	}
	return out, nil
}

// reader reads a script and keeps the first thing that is wrong.
type reader struct {
	err   error
	depth int
}

func (r *reader) fail(field, format string, args ...any) {
	if r.err == nil {
		r.err = &backends.FieldError{Field: field, Reason: fmt.Sprintf(format, args...)}
	}
}

func (r *reader) list(field string, raw json.RawMessage, of string) []json.RawMessage {
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil || isNull(raw) {
		r.fail(field, "must be a list of %s", of)
		return nil
	}
	return list
}

func (r *reader) steps(field string, raw json.RawMessage) []step {
	if r.depth++; r.depth > maxDepth {
		r.fail(field, "steps are nested more than %d deep", maxDepth)
	}
	defer func() { r.depth-- }()
	if r.err != nil {
		return nil
	}
	list := r.list(field, raw, "steps")
	out := make([]step, 0, len(list))
	for i, raw := range list {
		if s := r.step(fmt.Sprintf("%s[%d]", field, i), raw); r.err == nil {
			out = append(out, s)
		}
	}
	return out
}

// step reads one step: an object in which exactly one key names it, and the
// others are its own.
func (r *reader) step(field string, raw json.RawMessage) step {
	o := r.object(field, raw)
	var names []string
	for _, key := range o.keys() {
		if _, ok := steps[key]; ok {
			names = append(names, key)
		}
	}
	known := strings.Join(slices.Sorted(maps.Keys(steps)), ", ")
	switch {
	case r.err != nil:
		return nil
	case len(names) == 0 && len(o.fields) == 0:
		r.fail(field, "an empty object is no step; the steps are: %s", known)
	case len(names) == 0:
		r.fail(field, "unknown step %q; the steps are: %s", o.keys()[0], known)
	case len(names) > 1:
		r.fail(field, "two steps in one object: %s", strings.Join(names, ", "))
	}
	if r.err != nil {
		return nil
	}
	m := steps[names[0]]
	o.only(m.keys...)
	return m.make(o)
}

// isNull reports whether a JSON value is absent or null.
func isNull(raw json.RawMessage) bool {
	s := strings.TrimSpace(string(raw))
	return s == "" || s == "null"
}
