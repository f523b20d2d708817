package backendtest_test

import (
	"context"
	"testing"

	"innerd/backends"
	"innerd/backends/simulate"
	"innerd/events"
)

// detailMutants are agents that do what they should and tell it less than whole.
func detailMutants() []mutantTest {
	called := emits(func(h backends.Host, e events.Event) {
		if d, ok := e.Data.(events.ToolCall); ok {
			d.Input = []byte(`{"command":"…"}`)
			e.Data = d
		}
		h.Emit(e)
	})
	coded := func(code *int) mutant {
		return emits(func(h backends.Host, e events.Event) {
			if d, ok := e.Data.(events.ToolComplete); ok {
				d.ExitCode = code
				e.Data = d
			}
			h.Emit(e)
		})
	}
	one := 1
	lost := mutant{open: func(ctx context.Context, b *simulate.Backend, cfg backends.Config) (backends.Conversation, error) {
		cfg.AddDirs = nil
		return b.Open(ctx, cfg)
	}}
	noKind := told(func(in *backends.Input) {
		for i := range in.Parts {
			in.Parts[i].MimeType = ""
		}
	})
	return []mutantTest{
		{"an input in secret", "native-tool", called, `does not hold "echo the output"`},
		{"an input in secret", "native-tool-fails", called, `does not hold "echo no such luck; exit 3"`},
		{"no exit code", "native-tool", coded(nil), "exit code null, want 0"},
		{"no exit code", "native-tool-fails", coded(nil), "exit code null, want 3"},
		{"another exit code", "native-tool-fails", coded(&one), "exit code 1, want 3"},
		{"on and on", "error-refused", emits(func(h backends.Host, e events.Event) {
			for range 9 {
				h.Emit(e)
			}
		}), "it told 9 times that it tries again, want at most 8"},
		{"tries in secret", "error-refused", emits(without(events.TypeStatus)), `no session.status "retrying"`},
		{"no kind of audio", "prompt-with-audio", noKind, `was not told "audio/mpeg"`},
		{"no kind of video", "prompt-with-video", noKind, `was not told "video/mp4"`},
		{"a first token before there was one", "usage-times", usage(func(u *events.Usage) { *u.TTFTMS = 20 }), "the first token came after 20ms"},
		{"a run that was over before it began", "usage-times", usage(func(u *events.Usage) { *u.Duration = 0.1 }), "all of it after 100ms"},
		{"an added directory is lost", "add-dirs", lost, "0 changes of files"},
		{"an added directory that nobody knows of", "add-dirs-told", lost, "was not told"},
	}
}

// What finds the mutants finds nothing where nothing is wrong.
func TestNoMutantIsFine(t *testing.T) {
	for _, m := range detailMutants() {
		t.Run(m.in, func(t *testing.T) {
			t.Parallel()
			if f := play(t, m.in, mutant{}); len(f.faults) > 0 || f.skipped != "" {
				t.Errorf("%q, skipped: %q", f.faults, f.skipped)
			}
		})
	}
}
