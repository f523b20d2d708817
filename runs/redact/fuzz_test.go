package redact_test

import (
	"strings"
	"testing"

	"innerd/runs/redact"
)

// FuzzRead: any file is refused or gives patterns, with which a text that holds
// one of them does not any more; what a text has beside them stays.
func FuzzRead(f *testing.F) {
	for _, s := range []string{"# keys\n\n  my-own-key-*  \r\nexactly this text\n", "sk-ant-*\nsk-ant-api-*", "*", "\x00\xff*\n", "aaaaaaaa\naaaaaaaaaaaa", "[redacted]\n"} {
		f.Add([]byte(s), "a text with my-own-key-abcdefgh and exactly this text, sk-ant-api-abcdefgh")
	}
	f.Fuzz(func(t *testing.T, file []byte, text string) {
		if len(file)+len(text) > 4<<10 {
			return // each pattern is looked for at each place: more finds nothing else
		}
		patterns, err := redact.Read(file)
		if err != nil {
			return
		}
		set, err := redact.New(patterns...)
		if err != nil {
			t.Fatalf("patterns that were read: %v", err)
		}
		for _, p := range patterns {
			// A mark could make one of its own letters and those beside it.
			if strings.HasSuffix(p, "*") || strings.ContainsAny(p, "[]") || strings.Contains("[redacted]", p) {
				continue
			}
			if got := set.Text(text + " " + p + " " + text); strings.Contains(got, " "+p+" ") {
				t.Fatalf("%q stands in %q", p, got)
			}
		}
		if len(patterns) == 0 && set.Text(text) != text {
			t.Fatalf("%q became %q", text, set.Text(text))
		}
	})
}
