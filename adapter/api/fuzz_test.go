package api_test

import (
	"errors"
	"testing"

	"innerd/adapter/api"
	"innerd/test/mutate"
)

// FuzzBodies: any bytes are the body of a call or are refused, with the field's
// name where it is JSON.
func FuzzBodies(f *testing.F) {
	for _, s := range []string{
		``, `{}`, `[]`, `null`, `{"reason":7}`, `{"text":"a","metadata":{"b":1},"request_id":"r"}`, `{"option":"allow_once","message":"m","value":{"a":[1]},"remember":true}`,
		`{"result":"","is_error":true,"content":[{"type":"image","mime_type":"image/png","data":"AA=="},{"type":"file","path":"/x"},{"type":"json","json":{"a":1}},{"type":"text"}],"metadata":null}`,
		`{"messages":[{"role":"user","content":[{"text":"a"},"b",{"content":"c"}]}]}`, `{"text":`, "{\"text\":\"\xff\"}", `{"result":{"a":1}}`,
	} {
		f.Add([]byte(s))
		for bad := range mutate.Bytes([]byte(s), 100) {
			f.Add(bad)
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, v := range []api.Body{&api.Cancel{}, &api.Reply{}, &api.Answer{}, &api.Steer{}, &api.ToolResult{}} {
			err := api.Decode(body, v)
			var field *api.FieldError
			if errors.As(err, &field) && (field.Field == "" || field.Error() == "") {
				t.Errorf("%T: a fault without words: %#v", v, field)
			}
		}
	})
}
