package runs

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
)

func TestAppendText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "text")
		std, _ := json.Marshal(want)
		var a, b string
		if err := json.Unmarshal(appendText(nil, want), &a); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(std, &b); err != nil || a != b {
			t.Fatalf("%q, want %q", a, b)
		}
	})
}
