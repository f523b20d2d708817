package a2a

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"innerd/events"
)

// FuzzDelta compares the fast reading of a line with the thorough one.
func FuzzDelta(f *testing.F) {
	for _, text := range []string{"", "word ", `"quoted" \ back`, "line\nend", "\u2028 é 😀", `ends with \`, `","message_id":"m9"}}`} {
		f.Add(int64(7), int64(1700000000000), text, "m1")
	}
	f.Add(int64(1), int64(0), "x", `odd"id`)
	f.Fuzz(func(t *testing.T, id, ts int64, text, message string) {
		line, err := events.AppendLine(nil, id, ts, events.MessageDelta{Delta: text, MessageID: message})
		if err != nil {
			t.Skip()
		}
		want, err := events.ParseLine(line)
		if err != nil {
			t.Fatal(err)
		}
		want.Raw = nil
		got, ok := deltaOf(line)
		if !ok {
			return // the thorough way is taken
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestDeltaIsReadFast(t *testing.T) {
	for _, text := range []string{"word ", "é \"quoted\" \\", "\n"} {
		line, _ := events.AppendLine(nil, 12, 1700000000000, events.MessageDelta{Delta: text, MessageID: "m1"})
		if e, ok := deltaOf(line); !ok || e.ID != 12 || e.TS != 1700000000000 || e.Data != (events.MessageDelta{Delta: text, MessageID: "m1"}) {
			t.Errorf("%s: %+v %v", line, e, ok)
		}
	}
	for _, line := range []string{"", `{"id":1,"ts":2,"type":"assistant.message","data":{"delta":"x","message_id":"m"}}`, `{"id":1,"ts":2,"type":"assistant.message_delta","data":{"delta":"x`, `{"id":1,"ts":2,"type":"assistant.message_delta","data":{"delta":"x","message_id":"m","more":1}}`} {
		if e, ok := deltaOf([]byte(line)); ok {
			t.Errorf("%s became %+v", line, e)
		}
	}
}
