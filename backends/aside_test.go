package backends_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"innerd/backends"
	"innerd/events"
)

func TestAside(t *testing.T) {
	ctx, fail := context.WithCancelCause(t.Context())
	defer fail(nil)
	a := backends.NewAside(slog.New(slog.DiscardHandler), fail)
	a.Go(func() {})
	a.Go(func() { panic("out of luck") })
	a.Wait()
	var e *backends.Error
	if err := context.Cause(ctx); !errors.As(err, &e) || e.Type != events.ErrInternal || e.Message != "innerd failed: out of luck" {
		t.Error(err)
	}
}

func TestLastWords(t *testing.T) {
	for in, want := range map[string]string{
		"":                                 "",
		"\n \n":                            "",
		"one\ntwo\n\n":                     "two",
		"\x1b[31;1mERROR\x1b[0m it\tbroke": "ERROR it broke",
		"\x1b]0;a title\x07said\x1b[K":     "said",
		"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\": "link",
		"\x1b]never ends\nlast":                    "last",
		"50%\r100%\r\n":                            "100%",
		"cut \x1b":                                 "cut",
		"cut \x1b[3":                               "cut",
		"\x1b(Bplain\x00\x08":                      "Bplain",
		"bad \xff utf":                             "bad \uFFFD utf",
	} {
		if got := backends.LastWords(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
