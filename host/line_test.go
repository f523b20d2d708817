package host

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"innerd/events"
)

func same(t interface{ Fatalf(string, ...any) }, line []byte) (short bool) {
	want, werr := events.ParseLine(line)
	got, err := parseLine(line)
	if (err == nil) != (werr == nil) || err == nil && !reflect.DeepEqual(got, want) {
		t.Fatalf("%s: %#v %v, want %#v %v", line, got, err, want, werr)
	}
	_, short = parseDelta(line)
	return short
}

// The short way gives what the long one does, for every text; and it is taken.
func TestShortWay(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "\u2028\u0085 😀", "\\\"/\b\f\n\r\t\x00\x7f", "<&>"})).Draw(rt, "text")
		id := rapid.Int64Range(1, 1<<53).Draw(rt, "id")
		for _, d := range []events.Data{events.MessageDelta{Delta: text, MessageID: "m1"}, events.ReasoningDelta{Delta: text, ReasoningID: text}} {
			line, err := events.AppendLine(nil, id, 1700000000000, d)
			if err != nil {
				rt.Fatal(err)
			}
			if !same(rt, line) {
				rt.Fatalf("the long way was taken for %s", line)
			}
		}
	})
}

func FuzzParseLine(f *testing.F) {
	for _, s := range []string{
		`{"id":1,"ts":2,"type":"assistant.message_delta","data":{"delta":"a","message_id":"m"}}`,
		`{"id":1,"ts":2,"type":"assistant.reasoning_delta","data":{"delta":"\ud83d\ude00","reasoning_id":"m","extensions":[{"uri":"urn:ii-agent:extensions:reasoning/v1"}]}}`,
		`{"id":01,"ts":2,"type":"assistant.message_delta","data":{"delta":"\ud83d","message_id":"m"}}`,
		`{"id":1,"ts":2,"type":"assistant.message_delta","data":{"delta":"a","message_id":"m","more":1}}`,
		`{"id":1,"ts":2,"type":"assistant.message_delta","data":{"delta":"a","message_id":"m"}}}`,
		`{"id":99999999999999999999,"ts":2,"type":"assistant.message_delta","data":{"delta":"a\u12","message_id":"m"}}`,
		`{"id":1,"ts":2,"type":"session.end","data":{"state":"completed"}}`, `{`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) { same(t, line) })
}
