package telemetry_test

import (
	"regexp"
	"strings"
	"testing"

	"innerd/telemetry"
)

var (
	parent = regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-0[0-3]$`) // sampled, and random as Level 2 has it
	zeros  = regexp.MustCompile(`^00-0{32}-|-0{16}-0[0-3]$`)
)

// FuzzLink: any headers are a place in a trace as W3C writes it, or none; what
// is handed on can be handed on again, and is one line.
func FuzzLink(f *testing.F) {
	for _, s := range []string{hosts, "", "00-" + strings.Repeat("0", 32) + "-b7ad6b7169203331-01", "01" + hosts[2:] + "-more", hosts + "-", strings.ToUpper(hosts), "00-\xff", hosts[:54] + "ff", hosts[:54] + "2"} {
		for _, state := range []string{"", "a=1,b=2", "a=1,a=2", "a@b=c", strings.Repeat("a", 600), "a=\r\nX: 1", "=,=", "\x00"} {
			f.Add(s, state)
		}
	}
	f.Fuzz(func(t *testing.T, traceparent, tracestate string) {
		l := telemetry.ParseLink(traceparent, tracestate)
		if l.Parent == "" {
			if l.State != "" {
				t.Fatalf("%q is a state of nothing", l.State)
			}
			return
		}
		if !parent.MatchString(l.Parent) || zeros.MatchString(l.Parent) {
			t.Fatalf("%q gave %q", traceparent, l.Parent)
		}
		if len(l.State) > 512 || strings.ContainsFunc(l.State, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Fatalf("%q gave %q", tracestate, l.State)
		}
		if again := telemetry.ParseLink(l.Parent, l.State); again != l {
			t.Fatalf("%v became %v", l, again)
		}
	})
}
