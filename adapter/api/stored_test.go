package api_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"innerd/adapter/api"
)

// hollow is a request that was decoded.
func hollow(t *testing.T, body string) *api.Hollow {
	t.Helper()
	h := api.NewHollow([]byte(body))
	if _, err := h.Decode(); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return h
}

// TestStored: what has no secrets is kept as it came, in one line; the rest
// loses them, and nothing else.
func TestStored(t *testing.T) {
	for body, want := range map[string]string{
		`{"messages" : [ ],"a":"<\u003c"}`:                                                   `{"messages" : [ ],"a":"<\u003c"}`,
		"{\r\n\t\"messages\" : [ \"\\n \" ] ,\n\"messages\":[] }\n":                          `{"messages":["\n "],"messages":[]}`,
		`{"metadata":{"model":"m", "credentials":{"api_key":"sk"}},"b":[1, 2]}`:              `{"metadata":{"model":"m"},"b":[1,2]}`,
		`{"metadata":{"env":{"A":"x","\u0042" : "y"},"a":1},"messages":[]}`:                  `{"metadata":{"env":{"A":"","\u0042":""},"a":1},"messages":[]}`,
		`{"metadata":{"env":null,"credentials":null}}`:                                       `{"metadata":{"env":null}}`,
		`{"metadata":{"ENV":"x","env":{}}}`:                                                  `{"metadata":{"env":{}}}`,
		`{"metadata":["credentials","sk"],"metadata":null}`:                                  `{"metadata":null}`,
		`{"Metadata":"sk","metadata":{"a":1}}`:                                               `{"metadata":{"a":1}}`,
		`{"x":{"metadata":{"credentials":"no setting"}},"credentials":1,"metadata":{}}`:      `{"x":{"metadata":{"credentials":"no setting"}},"credentials":1,"metadata":{}}`,
		`{"metadata":{"agent_options":{"env":{"A":"b"}},"a":{"credentials":2}}}`:             `{"metadata":{"agent_options":{"env":{"A":"b"}},"a":{"credentials":2}}}`,
		`{"messages":[],"metadata":{"credentials":{"api_key":"a"},"credentials":{}},"z":{}}`: `{"messages":[],"metadata":{},"z":{}}`,
	} {
		if got := string(hollow(t, body).Stored()); got != want {
			t.Errorf("%s is stored as %s, want %s", body, got, want)
		}
	}
}

// TestNoSpellingIsStored: no way to write the name of a secret, nor a place
// among repeated ones, brings one into what is stored.
func TestNoSpellingIsStored(t *testing.T) {
	metadata := []string{`metadata`, `METADATA`, `Metadata`, `m\u0065tadata`, `\u004detadata`, `\u006d\u0065\u0074\u0061\u0064\u0061\u0074\u0061`, `\u004DETADAT\u0041`}
	credentials := []string{`credentials`, `CREDENTIALS`, `Credentials`, `cr\u0065dentials`, `\u0063redential\u0053`, "credential\u017f", `credential\u017F`, `CREDENTIAL\u017f`}
	env := []string{`env`, `ENV`, `Env`, `\u0065nv`, `e\u004ev`, `EN\u0056`}
	const secret = "canary-of-a-secret"
	check := func(body string) {
		t.Helper()
		for _, b := range []string{body, strings.ReplaceAll(body, ",", " ,\n\t")} {
			stored := string(hollow(t, b).Stored())
			if strings.Contains(stored, secret) || !json.Valid([]byte(stored)) || strings.Contains(stored, "\n") || !strings.Contains(stored, `"kept"`) {
				t.Errorf("%s is stored as %s", b, stored)
			}
		}
	}
	const rest = `"metadata":{"model":"kept"}`
	for _, m := range metadata {
		for _, c := range credentials {
			key := `{"api_key":"` + secret + `","x":["` + secret + `"]}`
			check(`{"` + m + `":{"` + c + `":` + key + `},` + rest + `}`)
			check(`{` + rest + `,"` + m + `":{"a":1,"` + c + `":` + key + `,"` + c + `":null}}`)
			check(`{"` + m + `" : {"` + c + `" : null,"` + c + `" : ` + key + `,"b":[]},` + rest + `}`)
		}
		for _, e := range env {
			check(`{"` + m + `":{"` + e + `":{"A":"` + secret + `","A":"b"}},` + rest + `}`)
			check(`{"` + m + `":{"` + e + `":{"A":"b","A":{"x":"` + secret + `"},"B":["` + secret + `"]}},` + rest + `}`)
			check(`{"` + m + `":{"` + e + `":"` + secret + `","` + e + `":["` + secret + `"]},` + rest + `}`)
		}
		check(`{"` + m + `":["` + secret + `"],"` + m + `":"` + secret + `",` + rest + `}`)
	}
}

// TestHashIsKept: hashes are on disk, and are compared by later versions. These
// were made by the first one.
func TestHashIsKept(t *testing.T) {
	long := strings.Repeat(`0123456789\n`, 100_000)
	for body, want := range map[string]string{
		`{}`: "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
		`{"context_id":"c","messages":[{"role":"user","content":"hi <&> \u00fc\u2028\n"}],"metadata":{"task_id":"abcdefgh","credentials":{"api_key":"k"},"env":{"B":"1","A":"2"}}}`:                 "6b23bbbc7f1e782bbd84ce6e870f4d887c90f3908d4d0c4c61b6a2870c78235a",
		" {\"metadata\" : {\"env\":{\"A\":\"2\",\"B\":\"1\"},\"task_id\":\"abcdefgh\"},\n\"messages\":[{\"content\":\"hi \\u003c&> \u00fc\u2028\\u000a\",\"role\":\"user\"}],\"context_id\":\"c\"}": "6b23bbbc7f1e782bbd84ce6e870f4d887c90f3908d4d0c4c61b6a2870c78235a",
		"{\"n\":[1.0,-0,1E5,12345678901234567890],\"a\":1,\"a\":[],\"\\u0061\":{\"\xff\":\"\\ud800\",\"b\":\"\\/\\b\\f\"},\"METADATA\":{\"Credentials\":1}}":                                        "4835e1280a829d95f8c5dd6d35e5c6416cc675e93e2ae240395c3994853348a3",
		`{"messages":[{"role":"user","content":"` + long + `"}],"metadata":{"task_id":"abcdefgh"}}`:                                                                                                 "d0b13cac48e639c338e7a1ae9c221e1dd4ed3c0a01aad885ece7489d2757da4b",
	} {
		if got := hollow(t, body).Hash(); got != want {
			t.Errorf("%.300q: %s, want %s", body, got, want)
		}
	}
}

// TestHashOfDepth: what is nested as deep as it may be takes no longer than as
// much that is flat: each level was once looked through for each one above it,
// which took a minute of this body, hundreds of times as long.
func TestHashOfDepth(t *testing.T) {
	text := strings.Repeat("x", 24<<20)
	takes := func(before, after string, deep int) time.Duration {
		h := hollow(t, `{"x":`+strings.Repeat(before, deep)+`"`+text+`"`+strings.Repeat(after, deep)+`}`)
		began := time.Now()
		_, _ = h.Hash(), h.Stored()
		return time.Since(began)
	}
	for _, c := range [][2]string{{`[`, `]`}, {`{"b":`, `,"a":1}`}} {
		flat, deep := takes(c[0], c[1], 1), takes(c[0], c[1], 9999)
		t.Logf("%s took %v, flat %v", c[0], deep, flat)
		if deep > 20*flat {
			t.Errorf("%s took %v, flat it is %v", c[0], deep, flat)
		}
	}
}
