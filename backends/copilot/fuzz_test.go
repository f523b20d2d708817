package copilot_test

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/backends/copilot"
	"innerd/events"
	"innerd/test/mutate"
	"innerd/test/transcript"
)

// FuzzTranslate: whatever copilot prints, the stream keeps its rules, every
// event can be written, and nobody panics.
func FuzzTranslate(f *testing.F) {
	files, err := filepath.Glob(filepath.Join(transcripts, "*.jsonl"))
	if err != nil || len(files) == 0 {
		f.Fatal("no transcripts", err)
	}
	for i, file := range files {
		if i%4 == 0 { // enough of every kind
			seed := bytes.Join(transcript.Printed(f, file), []byte("\n"))
			f.Add(seed)
			for bad := range mutate.Bytes(seed, 40) {
				f.Add(bad)
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		keepsTheRules(t, bytes.Split(data, []byte("\n")))
	})
}

// keepsTheRules translates messages, of which some may be no JSON: those end no
// turn.
func keepsTheRules(t *testing.T, messages [][]byte) {
	t.Helper()
	said := 0
	rec := backendtest.NewRecorder(backendtest.Turn{Interactive: true}, nil, nil)
	defer rec.Close()
	copilot.Translate(messages, rec, func(_ backends.Outcome, err error) {
		var fault *backends.Error
		if err != nil && !errors.As(err, &fault) {
			return
		}
		log := rec.Events()[said:]
		said += len(log)
		for _, fault := range backendtest.CheckOrder(log, false) {
			t.Error(fault)
		}
		for _, e := range log {
			if _, err := events.AppendLine(nil, 1, 1, e.Data); err != nil {
				t.Error(err)
			}
		}
	})
}
