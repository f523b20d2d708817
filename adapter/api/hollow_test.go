package api_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"innerd/adapter/api"
)

// TestHollowIsTheSame: a large body means the same whether its long strings are
// taken out or not, wherever they stand and whatever is in them.
func TestHollowIsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		long := func(label string) string {
			unit := rapid.SampledFrom([]string{
				"plain ", `a\nb\t\"c\" `, "ünï ", `\u00fc\ud83d\ude00 `, `\ud800 `, "\x80bad ", `\\`, `\/x`, "<&>", `{\"a\": [1]}`,
			}).Draw(t, label)
			n := rapid.SampledFrom([]int{1, 50, 500}).Draw(t, label+" length")
			return `"` + strings.Repeat(unit, n/len(unit)+1) + `"`
		}
		message := func() string {
			return rapid.SampledFrom([]func() string{
				func() string { return `{"role":"user","content":` + long("content") + `}` },
				func() string {
					return `{"role":` + long("role") + `, "content" : [{"text":` + long("a") + `},` + long("b") + `]}`
				},
				func() string {
					return `{"role":"user","content":null,"images":[{"content":` + long("image") + `,"id":` + long("id") + `},` + long("url") + `],"files":{"url":` + long("file") + `,"transcript":` + long("said") + `}}`
				},
				func() string {
					return `{"role":"assistant","tool_calls":[{"id":` + long("call") + `,"function":{"name":"f","arguments":` + long("arguments") + `}},{"name":"g","arguments":{"x":` + long("x") + `,` + long("key") + `:1}}],"citations":{"items":[` + long("citation") + `]}}`
				},
				func() string {
					return `{"role":"tool","tool_name":` + long("tool") + `,"content":{"content":` + long("c") + `},"is_summary":` + long("flag") + `}`
				},
			}).Draw(t, "message")()
		}
		var list []string
		for range rapid.IntRange(1, 4).Draw(t, "messages") {
			list = append(list, message())
		}
		body := []byte(`{"context_id":"c","messages":[` + strings.Join(list, ",") + `],"metadata":{"system_message":` + long("system") + `,"model":"m"}}`)
		want, wantErr := api.DecodePlain(body)
		h := api.NewSmallHollow(body)
		got, err := h.Decode()
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%v, want %v", err, wantErr)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
		if filled := h.Fill(h.Body()); !bytes.Equal(filled, body) {
			t.Fatal("filled again it is another")
		}
	})
}

// TestHollowTakesOut: what is left of a large body is small, but for what
// stands outside of messages.
func TestHollowTakesOut(t *testing.T) {
	big := strings.Repeat("x", 2<<20)
	h := api.NewHollow([]byte(`{"messages":[{"role":"user","content":"` + big + `"}],"metadata":{}}`))
	if n := len(h.Body()); n > 200 {
		t.Errorf("%d bytes are left", n)
	}
	again := api.NewHollow([]byte(`{"messages":[{"role":"user","content":"` + big + `"}],"metadata":{}}`))
	if !bytes.Equal(h.Name(h.Body()), again.Name(again.Body())) {
		t.Error("the same body has two names")
	}
	other := api.NewHollow([]byte(`{"messages":[{"role":"user","content":"y` + big + `"}],"metadata":{}}`))
	if bytes.Equal(h.Name(h.Body()), other.Name(other.Body())) {
		t.Error("two bodies have one name")
	}
	h = api.NewHollow([]byte(`{"context_id":"` + big + `","messages":[]}`))
	if _, err := h.Decode(); err == nil || len(err.Error()) > 200 {
		t.Errorf("a long context_id: %.100v", err)
	}
}

// TestHollowLeavesBadBodies: what is no JSON is refused as before.
func TestHollowLeavesBadBodies(t *testing.T) {
	big := strings.Repeat("x", 2<<20)
	for name, body := range map[string]string{
		"no end":        `{"messages":[{"content":"` + big,
		"control":       `{"messages":[{"content":"` + big + "\n" + `"}]}`,
		"escape":        `{"messages":[{"content":"` + big + `\q"}]}`,
		"half a code":   `{"messages":[{"content":"` + big + `\u12"}]}`,
		"behind it":     `{"messages":[{"content":"` + big + `"}]}x`,
		"not an object": `["` + big + `"]`,
		"missing comma": `{"messages":[{"content":"` + big + `" "role":"user"}]}`,
	} {
		_, want := api.DecodePlain([]byte(body))
		_, err := api.DecodeRequest([]byte(body))
		if err == nil || want == nil {
			t.Errorf("%s: %v, %v", name, err, want)
		}
		if json.Valid([]byte(body)) && name != "not an object" {
			t.Errorf("%s is valid", name)
		}
	}
}
