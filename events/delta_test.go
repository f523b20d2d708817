package events_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"innerd/events"
)

// sameAsLong compares the short way with the long one; short: it was taken.
func sameAsLong(t interface{ Fatalf(string, ...any) }, line []byte) (short bool) {
	want, werr := events.ParseWhole(line)
	got, err := events.ParseLine(line)
	if fmt.Sprint(err) != fmt.Sprint(werr) {
		t.Fatalf("%q: %v, want %v", line, err, werr)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%q: %s", line, diff)
	}
	if got, short = events.ParseDelta(line); !short {
		return false
	}
	want.Raw = nil
	if diff := cmp.Diff(want, got); diff != "" || werr != nil {
		t.Fatalf("%q: %v, %s", line, werr, diff)
	}
	return true
}

func deltas(text, id string) []events.Data {
	return []events.Data{events.MessageDelta{Delta: text, MessageID: id}, events.ReasoningDelta{Delta: text, ReasoningID: id}}
}

// The short way gives what the long one does for every delta, and is taken.
func TestDeltasAreReadTheShortWay(t *testing.T) {
	odd := []string{"", "\u2028\u0085 😀", "\\\"/\b\f\n\r\t\x00\x7f", "<&>", `","message_id":"m9"}}`, "\xff\xed\xa0\x80"}
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.SampledFrom(odd))
		id := rapid.Int64Range(1, 1<<53).Draw(rt, "id")
		for _, d := range deltas(text.Draw(rt, "text"), text.Draw(rt, "its id")) {
			line, err := events.AppendLine(nil, id, 1700000000000, d)
			if err != nil {
				rt.Fatal(err)
			}
			if !sameAsLong(rt, line) {
				rt.Fatalf("the long way was taken for %s", line)
			}
		}
	})
}

// What is no delta, or is written otherwise, is left to the long way.
func TestWhatIsNoPlainDelta(t *testing.T) {
	for _, line := range []string{
		``, `{`, `{"id":1,"ts":2,"type":"assistant.message_delta"`,
		`{"id":1,"ts":2,"type":"assistant.message","data":{"delta":"x","message_id":"m"}}`,
		`{"id":1,"ts":2,"type":"assistant.message_delta","data":{"delta":"x`,
		`{"id":1,"ts":2,"type":"assistant.message_delta","data":{"delta":"x\`,
		`{"id":1,"ts":2,"type":"assistant.message_delta","data":{"delta":"x\u00`,
		`{"id":1,"ts":2,"type":"assistant.message_delta","data":{"delta":"x","message_id":"m","more":1}}`,
		`{"id":1,"ts":2,"type":"assistant.message_delta","data":{"message_id":"m","delta":"x"}}`,
		`{"id":1,"ts":2,"type":"assistant.message_delta","data":{"delta":"\ud83d","message_id":"m"}}`,
		`{"id":1,"ts":2,"type":"assistant.message_delta","data":{"delta":"é","message_id":"m"}}`,
		`{"id":1,"ts":2,"type":"assistant.message_delta","data":{"delta":7,"message_id":"m"}}`,
		`{"id":01,"ts":2,"type":"assistant.message_delta","data":{"delta":"x","message_id":"m"}}`,
		`{"id":9223372036854775808,"ts":2,"type":"assistant.message_delta","data":{"delta":"x","message_id":"m"}}`,
		`{"id":1,"ts":2,"type":"assistant.message_delta","data":{"delta":"x","message_id":"m"}}}`,
		`{"id":1,"ts":2,"type":"assistant.reasoning_delta","data":{"delta":"x","reasoning_id":"m"}}`,
	} {
		if e, ok := events.ParseDelta([]byte(line)); ok {
			t.Errorf("%s became %+v", line, e)
		}
	}
}

func FuzzParseDelta(f *testing.F) {
	for _, text := range []string{"word ", "\u2028 é 😀", "a\n\"b\"\\"} {
		for _, d := range deltas(text, "m1") {
			line, _ := events.AppendLine(nil, 7, 1700000000000, d)
			f.Add(line)
		}
	}
	f.Add([]byte(`{"id":1,"ts":2,"type":"assistant.message_delta","data":{"delta":"\uD83D\u12 \/","message_id":"m"}}`))
	f.Fuzz(func(t *testing.T, line []byte) { sameAsLong(t, line) })
}

func BenchmarkParse(b *testing.B) {
	line, _ := events.AppendLine(nil, 123456, 1700000000000, events.MessageDelta{Delta: fmt.Sprintf("%040d", 1), MessageID: "m1"})
	b.Run("ParseDelta", func(b *testing.B) {
		for b.Loop() {
			_, _ = events.ParseDelta(line)
		}
	})
	b.Run("ParseLine", func(b *testing.B) {
		for b.Loop() {
			_, _ = events.ParseLine(line)
		}
	})
	b.Run("whole", func(b *testing.B) {
		for b.Loop() {
			_, _ = events.ParseWhole(line)
		}
	})
}
