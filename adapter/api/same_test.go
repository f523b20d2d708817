package api_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"innerd/adapter/api"
	"innerd/test/mutate"
)

// oddBodies are bodies in which decoders differ: names spelled otherwise,
// repeated and escaped, texts that are no Unicode, numbers without end.
func oddBodies() []string {
	bodies := []string{
		``, ` `, `null`, `7`, `"x"`, `[]`, `{}`, `{} x`, `{}}`, `{"messages":[{}],}`, "\ufeff{}", `{"a":1}{"a":2}`,
		`{"messages":[{"role":"user","content":"a","ROLE":"tool","Content":null,"\u0063ontent":"b"}],"MESSAGES":[{"content":"c"}],"m\u0065ssages":[{"content":"d","name":"n","role":"tool"}]}`,
		`{"messages":7,"messages":null,"Messages":[]}`, `{"messages":[],"messages":7}`, `{"messages":[null,{},null,[],7]}`, `{"messages":[{},"x"],"context_id":7}`,
		`{"context_id":"a","CONTEXT_ID":null,"conteXt_id":"b"}`, `{"context_id":"a","context_id":7}`, `{"metadata":{"model":"m"},"metadata":null,"METADATA":{"model":"n"}}`,
		"{\"messages\":[{\"rol\u212a\":1,\"tool_call\u017f\":[{\"name\":\"long s\"}],\"ima\u0261es\":[],\"i\u017f_\u017fummary\":true,\"file\\u017f\":[\"u\"]}],\"metadata\":{\"bac\u212aend\":\"simulate\"}}",
		"{\"messages\":[{\"role\":\"u\xffser\",\"content\":\"\xed\xa0\x80 \xc3\x28\",\"na\xffme\":\"x\",\"tool_name\":\"\\ud800\",\"tool_call_id\":\"\\udc00\\ud800\\ude00\\ud83d\\ude00\"}]}",
		`{"messages":[{"role":1e999,"content":-0.0e-0,"tool_name":123456789012345678901234567890,"is_summary":1,"tool_call_error":"T","citations":{"a":1},"CITATIONS":7,"citations":[1 , 2],"Citations":null}]}`,
		`{"messages":[{"content":[{"text":null,"content":[{"text":["a",{"TEXT":"b"},null,7,true,[]]}]},{"text":"","content":"no"}],"reasoning_content":{"content":"r"},"redacted_reasoning_content":["x"]}]}`,
		`{"messages":[{"content":[[[[[[[[["deep"]]]]]]]],[[[[[[["less"]]]]]]]]}]}`,
		`{"messages":[{"images":{"url":"u","URL":7,"size":"12","Size":-1,"id":null},"files":"f","audio":["a",null,7,["x"],{},{"content":"c","size":1e300,"transcript":"t"}],"videos":7,"image_output":null,"file_output":[],"audio_output":{"filepath":"p"},"video_output":[{"filename":"only"}]}]}`,
		`{"messages":[{"tool_calls":[{"id":1,"name":"a","arguments":" {\"x\" : 1} "},{"name":null,"tool_name":"b","input":{"y": 2},"arguments":null},{"function":{"name":"c","arguments":"not json","id":"inner"},"id":"i","name":"outer"},{"function":7,"name":"d"},{"function":{},"tool_name":"e"},null,7,"x"],"TOOL_CALLS":{"name":"one","arguments":""}}]}`,
		`{"metadata":{"native_tool_schemas":[{"name":"a","Description":7,"inputschema":{},"PARALLEL":false},{"function":{"name":"b","parameters":{"type":["object"],"parallel":"0","properties":{}},"parallel":null},"parallel":false},{"name":"c","parameters":{"type":"x"}},{"name":"d","parameters":[]},{"name":"e","parameters":{"properties":7}},7,{"name":7},{"name":"a"}]}}`,
		`{"metadata":{"credentials":{"api_key":"k","api_key":"l","\u0062ase_url":"u"},"env":{"A":"1","A":"2","":"x"}}}`, `{"metadata":{"env":{"A=":"","B":"\u0000"}}}`, `{"metadata":{"env":{"A":7}}}`, `{"metadata":{"credentials":{"model":7}}}`,
		`{"metadata":{"model":"a","MODEL":"b","m\u006fdel":"c","tool_choice":{"a": 1},"response_format":{"b" : 2},"agent_options":{"c":[ ]},"context":{"d" : 1},"system_message":[{"text":"s"},"t"],"events":["all"],"add_dirs":["a","b"]}}`,
		`{"messages":` + strings.Repeat(`[`, 10001) + strings.Repeat(`]`, 10001) + `}`, `{"x":` + strings.Repeat(`[`, 9999) + strings.Repeat(`]`, 9999) + `}`, `{"x":` + strings.Repeat(`[`, 10000) + strings.Repeat(`]`, 10000) + `}`,
		"\t{ \"messages\"\r\n:\n[ {\t\"role\" : \"user\" ,\n\"content\" : [ \"a\" , { \"text\" : \"b\" } ] , \"tool_calls\" : [ { \"name\" : \"n\" , \"arguments\" : { \"a\" : [ 1 , 2 ] } } ] } , null ] , \"metadata\" : { \"task_id\" : \"abcdefgh\" , \"env\" : { \"A\" : \"b\" } } }\n ",
		`{"b":"<&>\u003c\u2028\/","a":{"z":1,"y":[{"d":1,"c":2}],"z":2,"\u007a":3,"\n":"\u000a\b\f\u0008\u007f"},"":-0.10E+2,"A":[]}`, "{\"\u2028\":\"\u2029\xe2\x80\",\"\xff\":1,\"\xfe\":2,\"\\ud800\":3,\"\ufffd\":4}",
		`{"METADATA":{"Credentials":{"api_key":"sk"},"ENV":{"A":"x"},"env":"x"},"metadata":{"env":{"B":"x"},"task_id":"abcdefgh"}}`, `{"METADATA":7,"metadata":{"env":null}}`, `{"metadata":["sk"],"metadata":{"credential\u017f":{"api_key":"sk"}}}`,
	}
	return append(bodies, `{"messages":[{"role":"user","content":"`+strings.Repeat(`long \" and \\ `, 10)+`"},{"citations":{"a":"`+strings.Repeat("x", 50)+`"},"tool_calls":[{"name":"f","arguments":{"a":"`+strings.Repeat("y", 50)+`"}}]}],"metadata":{"credentials":{"api_key":"k"}}}`)
}

// FuzzSame: a request means what it always meant, is refused in the same
// words, and has the hash by which older versions know it.
func FuzzSame(f *testing.F) {
	seeds := oddBodies()
	stored, err := filepath.Glob("../../test/testdata/*/runs/*/request.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range stored {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		seeds = append(seeds, string(data))
	}
	for _, s := range seeds {
		f.Add([]byte(s))
		if len(s) > 5000 {
			continue
		}
		for bad := range mutate.Bytes([]byte(s), 60) {
			f.Add(bad)
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		same(t, body, api.NewHollow(body))
		if json.Valid(body) {
			same(t, body, api.NewSmallHollow(body))
		}
		sameMessage(t, body)
		sameMetadata(t, body)
	})
}

func same(t *testing.T, body []byte, h *api.Hollow) {
	t.Helper()
	before := bytes.Clone(body)
	want := &refRequest{}
	wantErr := want.decode(body)
	got, err := h.Decode()
	if !sameError(err, wantErr) {
		t.Fatalf("%q: %v, want %v", body, err, wantErr)
	}
	if err != nil {
		return
	}
	if !reflect.DeepEqual((*api.Request)(want), got) {
		t.Fatalf("%q: %s", body, cmp.Diff((*api.Request)(want), got))
	}
	wantStored, wantHash, err := refRedact(h, true)
	if err != nil {
		t.Fatal(err)
	}
	if hash := h.Hash(); hash != wantHash {
		t.Fatalf("%q: the hash %s, want %s", body, hash, wantHash)
	}
	checkStored(t, body, h.Stored(), wantStored)
	if !bytes.Equal(before, body) {
		t.Fatalf("%q became %q", before, body)
	}
	// What is kept of a request does not hold it in memory, nor does it change
	// with it.
	clear(body)
	if !reflect.DeepEqual((*api.Request)(want), got) {
		t.Fatalf("%q: a part of it was kept", before)
	}
	copy(body, before)
}

// checkStored looks for what must not be there, and that the rest is.
func checkStored(t *testing.T, body []byte, stored, want json.RawMessage) {
	t.Helper()
	if !json.Valid(stored) || bytes.ContainsAny(stored, "\r\n") {
		t.Fatalf("%q is stored as %q", body, stored)
	}
	if secret := secretIn(stored); secret != "" {
		t.Fatalf("%q is stored as %q, with %s", body, stored, secret)
	}
	var got, old map[string]any
	if json.Unmarshal(stored, &got) != nil || json.Unmarshal(want, &old) != nil {
		return // a number that is none of Go
	}
	for k, v := range old { // what stood for metadata and was none was kept
		if _, object := v.(map[string]any); strings.EqualFold(k, "metadata") && v != nil && !object {
			delete(old, k)
		}
	}
	if !reflect.DeepEqual(got, old) {
		t.Fatalf("%q is stored as %q, want %q", body, stored, want)
	}
}

// secretIn looks through every member that stands in a request, the repeated
// ones as well.
func secretIn(stored []byte) string {
	for _, top := range pairs(stored) {
		if !strings.EqualFold(top.name, "metadata") {
			continue
		}
		if top.raw[0] != '{' && top.raw[0] != 'n' {
			return top.name
		}
		if top.raw[0] == 'n' {
			continue
		}
		for _, m := range pairs(top.raw) {
			if strings.EqualFold(m.name, "credentials") {
				return m.name
			}
			if !strings.EqualFold(m.name, "env") {
				continue
			}
			if m.raw[0] == '{' {
				for _, v := range pairs(m.raw) {
					if string(v.raw) != `""` {
						return v.name
					}
				}
			} else if m.raw[0] != 'n' {
				return m.name
			}
		}
	}
	return ""
}

type pair struct {
	name string
	raw  json.RawMessage
}

// pairs are the members of an object, in order, by encoding/json.
func pairs(raw []byte) (out []pair) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	_, _ = dec.Token()
	for dec.More() {
		name, _ := dec.Token()
		var p pair
		p.name, _ = name.(string)
		_ = dec.Decode(&p.raw)
		out = append(out, p)
	}
	return out
}

// sameError: of several variables that are wrong it was any, once.
func sameError(a, b error) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	var fa, fb *api.FieldError
	if errors.As(a, &fa) && errors.As(b, &fb) && strings.HasPrefix(fa.Field, "metadata.env") && strings.HasPrefix(fb.Field, "metadata.env") {
		return true
	}
	return reflect.DeepEqual(a, b)
}

// A single message and metadata of their own, which nobody has looked at.
func sameMessage(t *testing.T, raw []byte) {
	t.Helper()
	var got api.Message
	var want refOneMessage
	err, wantErr := got.UnmarshalJSON(raw), want.UnmarshalJSON(raw)
	if !sameError(err, wantErr) || !reflect.DeepEqual(api.Message(want), got) {
		t.Fatalf("the message %q: %v, want %v: %s", raw, err, wantErr, cmp.Diff(api.Message(want), got))
	}
}

func sameMetadata(t *testing.T, raw []byte) {
	t.Helper()
	var got api.Metadata
	var want refMetadata
	err, wantErr := got.UnmarshalJSON(raw), want.decode(raw)
	if !sameError(err, wantErr) || err == nil && !reflect.DeepEqual(api.Metadata(want), got) {
		t.Fatalf("the metadata %q: %v, want %v: %s", raw, err, wantErr, cmp.Diff(api.Metadata(want), got))
	}
}
