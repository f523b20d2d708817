package a2a_test

import (
	"testing"

	"innerd/adapter/a2a"
	"innerd/adapter/a2a/spec"
)

// A page of whole tasks is bounded by its bytes as well; the next ones follow,
// and none is lost. A page without what is long is not.
func TestPagesAreBoundedByBytes(t *testing.T) {
	s := servedIn(t, t.TempDir(), &places{}, nil)
	want := map[string]bool{}
	for _, script := range []string{
		`[{"flood":{"deltas":75,"bytes":40000}}]`, `[{"flood":{"deltas":75,"bytes":40000}}]`, `[{"text":"short"}]`,
		`[{"flood":{"deltas":225,"bytes":40000}}]`, `[{"flood":{"deltas":75,"bytes":40000}}]`,
	} {
		r, err := s.SendMessage(t.Context(), a2a.Call{}, words(t, "", "go", script))
		if err != nil {
			t.Fatal(err)
		}
		want[r.Task.ID] = true
	}
	pages, token := []int{}, ""
	for {
		r, err := s.ListTasks(t.Context(), a2a.Call{}, &spec.ListTasksRequest{IncludeArtifacts: true, PageToken: token})
		if err != nil {
			t.Fatal(err)
		}
		if r.TotalSize != 5 || r.PageSize != 50 {
			t.Errorf("%d of %d", r.PageSize, r.TotalSize)
		}
		pages = append(pages, len(r.Tasks))
		for _, task := range r.Tasks {
			if !want[task.ID] || len(task.Artifacts) == 0 {
				t.Errorf("%s comes twice, or without its artifacts", task.ID)
			}
			delete(want, task.ID)
		}
		if token = r.NextPageToken; token == "" {
			break
		}
	}
	if len(want) > 0 || len(pages) != 3 {
		t.Errorf("pages of %v tasks, %d are missing", pages, len(want))
	}
	r, err := s.ListTasks(t.Context(), a2a.Call{}, &spec.ListTasksRequest{})
	if err != nil || len(r.Tasks) != 5 || r.NextPageToken != "" {
		t.Errorf("without artifacts: %+v, %v", r, err)
	}
}
