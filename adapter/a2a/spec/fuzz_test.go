package spec_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"innerd/adapter/a2a/spec"
	"innerd/test/mutate"
)

// FuzzDecode: any body of either binding is a request or is refused as one;
// what was read can be written and read again as the same.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"a"},{"raw":"AA==","mediaType":"image/png"},{"url":"http://x"},{"data":{"a_b":1}}],"contextId":"c","taskId":"t","metadata":{"a_b":1}},"configuration":{"historyLength":"3","returnImmediately":true}}`,
		`{"message":{"message_id":"m","role":1,"parts":[{"media_type":"x","text":""}],"reference_task_ids":["a"]}}`,
		`{"id":"t","historyLength":-1}`, `{"pageSize":1e3,"status":"TASK_STATE_WORKING","status_timestamp_after":"2026-01-01T00:00:00Z"}`,
		`{"taskId":"t","url":"http://x","authentication":{"scheme":"Bearer","credentials":"c"}}`, `{}`, `[]`, `null`, `{"a_":{"_b":{"c_d":[[[[[[[[[[1]]]]]]]]]]}}}`,
	} {
		f.Add([]byte(s))
		for bad := range mutate.Bytes([]byte(s), 100) {
			f.Add(bad)
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, v := range []any{
			&spec.SendMessageRequest{}, &spec.GetTaskRequest{}, &spec.ListTasksRequest{}, &spec.CancelTaskRequest{}, &spec.SubscribeToTaskRequest{}, &spec.PushConfig{}, &spec.ListPushConfigsRequest{},
		} {
			err := spec.Decode(body, v)
			if err != nil {
				var fault *spec.Error
				if !errors.As(err, &fault) || fault.Error() == "" {
					t.Fatalf("%T: %#v", v, err)
				}
				continue
			}
			if m, ok := v.(*spec.SendMessageRequest); ok && m.Message != nil {
				_ = m.Message.Check() // either is fine
			}
			raw, err := json.Marshal(v)
			if err != nil {
				t.Fatalf("%T of %q cannot be written: %v", v, body, err)
			}
			again := clone(v)
			if err := spec.Decode(raw, again); err != nil {
				t.Fatalf("%q became %q, which is refused: %v", body, raw, err)
			}
			twice, err := json.Marshal(again)
			if err != nil || string(twice) != string(raw) {
				t.Fatalf("%s, %v", cmp.Diff(string(raw), string(twice)), err)
			}
		}
	})
}

// clone makes an empty one of the same kind.
func clone(v any) any {
	switch v.(type) {
	case *spec.SendMessageRequest:
		return &spec.SendMessageRequest{}
	case *spec.GetTaskRequest:
		return &spec.GetTaskRequest{}
	case *spec.ListTasksRequest:
		return &spec.ListTasksRequest{}
	case *spec.CancelTaskRequest:
		return &spec.CancelTaskRequest{}
	case *spec.SubscribeToTaskRequest:
		return &spec.SubscribeToTaskRequest{}
	case *spec.PushConfig:
		return &spec.PushConfig{}
	}
	return &spec.ListPushConfigsRequest{}
}
